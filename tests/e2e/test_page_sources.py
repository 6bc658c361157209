"""What opens behind a mark of an answer, and that nothing in it can do harm."""

import pytest
from playwright.async_api import expect

from tests.e2e.scripted import end, passage, rows, started, web, words
from tests.e2e.test_page_answers import ask, ended

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = "<img src=x onerror=\"document.title='owned'\">"
OVERRIDE = "invoice\u202egnp.exe"


async def test_a_cited_passage_opens_in_its_document_with_the_words_marked(page, here):
    texts = [f"Clause {n}. Nothing of interest here." for n in range(150)]
    texts[120] = "Clause 8.3. A penalty of 2 % a month applies\nto late deliveries. Clause 9. Something else."
    here.shelf.put("legal/7", texts, title="Contract 7", source="c7.pdf")
    here.script(
        "penalty?",
        words("Late deliveries cost a penalty of 2 % a month [1]."),
        passage(1, "legal/7", "legal/7#120", texts[120], page=3, section="8 > 8.3"), end(),
    )  # fmt: skip
    turn = await ask(page, "penalty?")
    mark = turn.get_by_role("button", name="Source 1: Contract 7 · 8 > 8.3 · page 3")
    await mark.focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator(".cited")).to_be_in_viewport()
    await expect(dialog.locator(".cited mark")).to_have_text(["penalty of 2 % a month", "late deliveries"])
    await expect(dialog.locator(".passage")).to_have_count(150)
    await page.keyboard.press("Escape")
    await expect(mark).to_be_focused()


async def test_a_long_document_is_read_on_page_by_page(page, here):
    here.shelf.put("long", [f"Passage {n}" for n in range(130)], title="Long")
    await page.evaluate("location.hash = '#/documents'")
    await page.get_by_role("button", name="Long", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator(".passage")).to_have_count(100)
    await dialog.get_by_role("button", name="Read on").click()
    await expect(dialog.locator(".passage")).to_have_count(130)
    await expect(dialog.locator(".passage").nth(100)).to_be_focused()
    await expect(dialog.get_by_role("button", name="Read on")).to_be_hidden()


async def test_a_document_that_is_gone_or_changed_still_shows_what_was_cited(page, here):
    here.shelf.put("changed", ["Another text now."], title="Changed")
    here.script(
        "old",
        words("It was so [1], and so [2]."),
        passage(1, "gone", "gone#0", "It was so in the old text."),
        passage(2, "changed", "changed#9", "And so it was."),
        end(),
    )
    turn = await ask(page, "old")
    await turn.locator(".cite").first.click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("This document has been deleted since.")
    await expect(dialog.locator(".cited")).to_contain_text("It was so in the old text.")
    await dialog.get_by_role("button", name="Next source").click()
    await expect(dialog).to_contain_text("The document has changed since.")
    await expect(dialog.locator(".cited")).to_contain_text("And so it was.")
    await expect(dialog).to_contain_text("Another text now.")
    await expect(dialog.get_by_role("button", name="Previous source")).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await expect(dialog).to_contain_text("1 of 2")


async def test_a_statement_shows_its_parameters_and_rows(page, here):
    statement = (
        "SELECT region, sum(amount) AS total FROM contracts WHERE note <> ' FROM x' AND amount > $1 GROUP BY region"
    )
    found = [["EU", "8300000.10"], [None, "1.00"]]
    params = [100000, "2025-01-01", None]
    here.script("sum", words("8,300,000 [1]."), rows(1, statement, params, ["region", "total"], found, 40), end())
    turn = await ask(page, "sum")
    await turn.get_by_role("button", name="Source 1: Database · 40 rows").click()
    dialog = page.get_by_role("dialog")
    shown = await dialog.locator("pre").text_content()
    assert shown.split("\n") == [
        "SELECT region, sum(amount) AS total",
        "FROM contracts",
        "WHERE note <> ' FROM x' AND amount > $1",
        "GROUP BY region",
    ]
    await expect(dialog.locator("table").first.locator("tr")).to_have_text(["$1100000", "$22025-01-01", "$3null"])
    await expect(dialog.locator("table").last.locator("tr")).to_have_text(["regiontotal", "EU8300000.10", "∅1.00"])
    await expect(dialog).to_contain_text("The first 2 rows are shown.")


async def test_a_page_of_the_web_opens_in_a_tab_that_knows_nothing_of_ours(page, here):
    here.script(
        "web", words("It rose by 2 % [1][2]."),
        web(1, "https://example.org/a?b=1", "CPI", "The CPI rose by 2 % in May."),
        web(2, "javascript:document.title='owned'", "Bad", "x"), end(),
    )  # fmt: skip
    turn = await ask(page, "web")
    await turn.locator(".cite").first.click()
    link = page.get_by_role("dialog").get_by_role("link")
    await expect(link).to_have_attribute("href", "https://example.org/a?b=1")
    await expect(link).to_have_attribute("target", "_blank")
    await expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    await expect(page.get_by_role("dialog").locator("mark")).to_have_text("rose by 2 %")
    await page.get_by_role("button", name="Next source").click()
    await expect(page.get_by_role("dialog")).to_contain_text("javascript:document.title='owned'")
    await expect(page.get_by_role("dialog").get_by_role("link")).to_have_count(0)


async def test_what_comes_from_outside_is_shown_and_never_run(page, here):
    here.shelf.put("evil", [EVIL], title=EVIL, source=OVERRIDE)
    text = [
        f"{EVIL} **<script>document.title='owned'</script>** [x](javascript:alert(1)) `{EVIL}`",
        "![i](https://evil.example/p.png) [ok](https://example.org)",
        f"\n| {EVIL} | b |\n|---|---|\n| {EVIL} | {OVERRIDE} |\n[1]",
    ]
    here.script(
        EVIL,
        started("a", EVIL, query=EVIL),
        words("\n".join(text)),
        passage(1, "evil", "evil#0", EVIL, title=EVIL, section=OVERRIDE),
        end(),
    )
    turn = await ask(page, EVIL)
    await ended(turn)
    await turn.locator("summary").first.click()
    await turn.locator(".cite").click()
    await expect(page.get_by_role("dialog").locator(".passage")).to_contain_text(EVIL)
    await expect(page.get_by_role("dialog").locator("h2")).to_contain_text(EVIL)
    await page.keyboard.press("Escape")
    await page.evaluate("location.hash = '#/documents'")
    row = page.locator("#documents tr", has_text="onerror")
    await expect(row.locator("th")).to_contain_text(EVIL)
    await expect(row.locator("th .facts")).to_contain_text("invoicegnp.exe")
    assert await page.locator("img:not([src='icon.svg']), script:not([src])").count() == 0
    assert await page.locator("a[href^=javascript]").count() == 0
    assert await page.title() == "Documents · sabueso"
    links = await page.locator(".words a").evaluate_all("links => links.map(a => a.href)")
    assert links == []


async def test_nothing_but_the_pages_own_files_can_run_in_it(page, here, watch):
    response = await page.request.get(here.url)
    policy = dict(part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert {policy[name] for name in ("form-action", "frame-ancestors", "base-uri")} == {"'none'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert response.headers["referrer-policy"] == "no-referrer"
    blocked = """() => {
      const script = document.createElement("script");
      try { script.textContent = "document.title = 'owned'"; document.head.append(script); } catch {}
      try { document.body.insertAdjacentHTML("beforeend", "<b id=planted>x</b>"); } catch {}
      return [document.title, document.getElementById("planted")];
    }"""
    title, planted = await page.evaluate(blocked)
    assert title != "owned"
    assert planted is None

    watch.complaints.clear()
