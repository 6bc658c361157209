"""The page with a keyboard, a screen reader, a narrow or magnified screen, and with the rules of axe-core."""

import asyncio

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from tests.e2e.scripted import (
    chosen,
    end,
    finding,
    finished,
    lost,
    overloaded,
    passage,
    plan,
    rows,
    said,
    started,
    suspicion,
    thought,
    words,
)
from tests.e2e.test_page_answers import ask, ended

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
NARROW = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}
LOOKS = {"light": {}, "dark-phone": {**NARROW, "color_scheme": "dark", "locale": "es-ES"}}


async def violations(page):
    found = await Axe().run(page, options=RULES)
    return [
        (one["id"], [node["html"][:150] for node in one["nodes"]][:3], one["nodes"][0].get("failureSummary", "")[:300])
        for one in found.response["violations"]
    ]


def everything(here):
    """An answer with all that there can be in one."""
    here.shelf.put("seven", ["A penalty of 2 % a month.", "Other."], title="Contract 7", source="c7.pdf")
    here.script(
        "everything",
        chosen("plan", "as asked", 0.9),
        plan(("s1", "A long sub-question about penalties?", "sql", []), ("s2", "Another?", "documents", ["s1"])),
        thought(text="Both.", step="s1"),
        started("c", "calculate", step="s1", expression="1 + 1"),
        suspicion("quarantined", "vector_search", "b"),
        suspicion("flagged", "crm__find_customer_by_its_name"),
        finding("number", "47"),
        finding("citation", "It was so.", 1),
        started("a", "sql_query", query="SELECT 1", params=[5]),
        started("b", "vector_search", query="x"),
        finished("a", "sql_query", 20, "1 row", from_cache=True),
        finished("b", "vector_search", 40, "timeout", ok=False),
        lost("reranking", "timeout"),
        words("# Result\n\n- A penalty of **2 %** [1]\n- `code` and [a link](https://example.org)\n\n"),
        said(3, "crm__find_customer_by_its_name", "gold", name="Acme"),
        words("| a | b |\n|--|--|\n| 1 | 2 |\n\n```\ncode\n```\n\nTotal 47 [2], gold [3]."),
        passage(1, "seven", "seven#0", "A penalty of 2 % a month."),
        rows(2, "SELECT 1", [5], ["n"], [[47]]),
        end(),
    )
    here.script("broken", words("Half"), overloaded())


@pytest.mark.parametrize("look", ["light", pytest.param("dark-phone", marks=pytest.mark.slow)])
async def test_every_view_passes_the_rules_of_accessibility(visit, here, look):
    everything(here)
    page = await visit("/", **LOOKS[look])
    seen = {"first visit": await violations(page)}
    async for view in walk(page, here):
        seen[view] = await violations(page)
    assert {view: found for view, found in seen.items() if found} == {}


@pytest.mark.parametrize(
    ("size", "language"),
    [(NARROW, "es-ES"), ({"viewport": {"width": 640, "height": 400}}, "en-GB")],
    ids=["narrow", "magnified"],
)
async def test_no_view_scrolls_sideways(visit, here, size, language):
    everything(here)
    page = await visit("/", **size, locale=language)
    sideways = {"first visit": await page.evaluate(SIDEWAYS)}
    async for view in walk(page, here):
        sideways[view] = await page.evaluate(SIDEWAYS)
    assert [view for view, scrolls in sideways.items() if scrolls] == []


async def walk(page, here):
    """Through all views; yields the name of each when it is there."""
    await page.goto(f"{here.url}/?in#key={here.key()}")
    await expect(page.locator("#start")).to_be_visible()
    yield "start"
    await ask_anyhow(page, "broken")
    turn = await ask_anyhow(page, "everything")
    await turn.locator("summary").first.click()
    yield "answers"
    for mark in (0, 1, 2):
        await page.locator(".cite").nth(mark).click()
        await expect(page.locator("#source-body .waiting")).to_have_count(0)
        yield f"source {mark}"
        await page.keyboard.press("Escape")
    for view in ("documents", "limits"):
        await page.locator(f"#tab-{view}").click()
        await expect(page.locator("#documents tr, #meters .meter").locator("visible=true").first).to_be_visible()
        yield view


async def ask_anyhow(page, question):
    await page.locator("#question").fill(question)
    await page.keyboard.press("Enter")
    turn = page.locator(".turn").last
    await ended(turn)
    return turn


async def test_the_arrow_keys_go_through_the_tabs(page):
    await page.get_by_role("tab", name="Ask").focus()
    way = [("ArrowRight", "Documents"), ("ArrowRight", "Limits"), ("ArrowRight", "Ask"), ("ArrowLeft", "Limits")]
    for key, tab in [*way, ("Home", "Ask"), ("End", "Limits")]:
        await page.keyboard.press(key)
        await expect(page.get_by_role("tab", name=tab)).to_be_focused()
        await expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        await expect(page.get_by_role("tabpanel", name=tab)).to_be_visible()
    assert await page.locator("[role=tab][tabindex='0']").count() == 1


async def test_the_first_stop_of_the_keyboard_skips_to_the_content(page):
    await page.reload()
    await expect(page.locator("#app")).to_be_visible()
    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()


@pytest.mark.parametrize("keys", ["Enter", "Control+Enter", "Meta+Enter"])
async def test_enter_sends_and_with_shift_makes_a_line(page, here, keys):
    question = page.get_by_label("Your question")
    await question.fill("line one")
    await question.press("Shift+Enter")
    await question.press_sequentially("two")
    await expect(question).to_have_value("line one\ntwo")
    await question.press(keys)
    await expect(question).to_have_value("")
    await expect(question).to_be_focused()
    await ended(page.locator(".turn"))
    assert here.agent.requests[-1].question == "line one\ntwo"


async def test_what_happens_is_told_once_and_not_word_by_word(page, here):
    go_on = asyncio.Event()
    here.script("tell", words("Many words, "), go_on, words("more words."), end())
    turn = await ask(page, "tell")
    await expect(turn).to_contain_text("Many words")
    await expect(turn.locator("article")).to_have_attribute("aria-busy", "true")
    assert await page.locator("#live").text_content() == ""
    go_on.set()
    await expect(page.locator("#live")).to_contain_text("The answer is ready.")
    live = await page.locator("[aria-live], [role=status], [role=log]").evaluate_all(
        "nodes => nodes.filter((node) => node.closest('#conversation')).length"
    )
    assert live == 0


async def test_the_marks_can_be_reached_and_say_what_they_open(page, here):
    everything(here)
    turn = await ask(page, "everything")
    await ended(turn)
    mark = turn.get_by_role("button", name="Source 2: Database · 1 row")
    await mark.focus()
    await page.keyboard.press("Space")
    await expect(page.get_by_role("dialog", name="2 Database")).to_be_visible()
    inside = "document.querySelector('#source').contains(document.activeElement)"
    for _ in range(8):
        await page.keyboard.press("Tab")
        in_page = await page.evaluate(f"document.activeElement === document.body || {inside}")
        assert in_page, "the keyboard left the dialog"
    await page.keyboard.press("Escape")
    await expect(mark).to_be_focused()


async def test_the_list_of_conversations_is_a_drawer_on_a_phone(visit, here):
    page = await visit(f"/#key={here.key()}", viewport={"width": 360, "height": 700})
    await ended(await ask_anyhow(page, "hello"))
    opener = page.get_by_role("button", name="Conversations")
    await expect(page.locator("#sidebar")).to_be_hidden()
    await opener.click()
    await expect(page.get_by_role("link", name="hello")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#sidebar")).to_be_hidden()
    await expect(opener).to_be_focused()


async def test_nothing_moves_for_those_who_asked_for_that(visit, here):
    never = asyncio.Event()
    here.script("still", words("Begun"), never)
    page = await visit(f"/#key={here.key()}", reduced_motion="reduce")
    await page.locator("#question").fill("still")
    await page.keyboard.press("Enter")
    await expect(page.locator(".turn")).to_contain_text("Begun")
    assert await page.evaluate("document.getAnimations().length") == 0
