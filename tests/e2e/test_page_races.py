"""What a person does while the page draws, loads or waits is done, and nothing that comes late undoes it."""

import asyncio

import pytest
from playwright.async_api import expect

from tests.e2e.scripted import end, eventually, words
from tests.e2e.test_page_access import STORED, enter
from tests.e2e.test_page_answers import ask, ended

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def clear(here):
    here.desk.jobs.clear()
    here.shelf.documents["demo"] = {}


class Held:
    """Keeps back answers until they are let go; each says what was true when it was asked for."""

    def __init__(self):
        self.waiting = 0
        self.go = asyncio.Event()

    async def __call__(self, route):
        if self.go.is_set() or route.request.method == "DELETE":
            return await route.continue_()
        response = await route.fetch()
        self.waiting += 1
        await self.go.wait()
        await route.fulfill(response=response)


async def test_the_end_of_an_answer_leaves_the_focus_in_the_list_of_conversations(page, here):
    go_on = asyncio.Event()
    here.script("slow", words("Begun, "), go_on, words("ended."), end())
    turn = await ask(page, "slow")
    link = page.get_by_role("link", name="slow")
    await link.focus()
    await page.get_by_role("button", name="Rename “slow”").focus()
    go_on.set()
    await ended(turn)
    # The list is drawn after the answer has been kept; asking once more comes after that.
    await page.evaluate("import('/ask/asking.js').then((asking) => asking.refreshList())")
    await expect(page.get_by_role("button", name="Rename “slow”")).to_be_focused()


async def test_the_focus_stays_in_the_list_when_a_conversation_is_deleted_or_kept(page, here):
    for question in ("one", "two", "three"):
        await page.get_by_role("button", name="New conversation").first.click()
        await expect(page.locator(".turn")).to_have_count(0)
        await ended(await ask(page, question))
    await page.get_by_role("link", name="two").focus()
    delete = page.get_by_role("button", name="Delete “two”")
    await delete.click()
    # Drawn anew behind the dialog: in another language each node is another.
    await page.evaluate("localStorage.setItem('language', 'es')")
    await page.evaluate("import('/ask/asking.js').then((asking) => asking.refreshList())")
    await expect(page.get_by_role("button", name="Borrar «two»", include_hidden=True)).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Borrar «two»")).to_be_focused()
    await page.get_by_role("button", name="Borrar «two»").click()
    await page.locator("dialog.ask button[type=submit]").click()
    await expect(page.locator("#conversations a")).to_have_text(["three", "one"])
    await expect(page.get_by_role("link", name="one")).to_be_focused()


async def test_a_rating_is_kept_with_its_answer_when_another_conversation_is_open_by_then(page, here):
    held = Held()
    await page.route("**/v1/feedback", held)
    here.script("rate", words("Good?"), end(answer_id="ans-late"))
    turn = await ask(page, "rate")
    await turn.get_by_role("button", name="Not helpful").click()
    await eventually(lambda: held.waiting)
    await page.get_by_role("button", name="New conversation").first.click()
    await expect(page.locator(".turn")).to_have_count(0)
    await ended(await ask(page, "another"))
    held.go.set()
    await expect(page.locator("#live")).to_have_text("Your rating is kept.")
    await page.get_by_role("link", name="rate").click()
    await expect(page.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")


async def test_a_question_that_is_sent_while_its_conversation_is_being_read_is_asked_in_it(page, here):
    here.script("first", words("One."), end())
    await ended(await ask(page, "first"))
    await page.reload()
    await expect(page.locator(".turn")).to_have_count(1)
    early = """async () => {
      const asking = await import("/ask/asking.js");
      asking.forget();
      const shown = asking.show(location.hash.split("/")[2]);
      document.querySelector("#question").value = "second";
      document.querySelector("#question").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      await shown;
    }"""
    await page.evaluate(early)
    await expect(page.locator(".turn .question")).to_have_text(["You: first", "You: second"])
    await ended(page.locator(".turn").last)
    await expect(page.get_by_label("Your question")).to_have_value("")


async def test_a_question_goes_to_the_conversation_that_was_clicked_last_though_it_is_not_there_yet(page, here):
    await ended(await ask(page, "first"))
    await page.get_by_role("button", name="New conversation").first.click()
    await ended(await ask(page, "second"))
    send = """() => {
      document.querySelector("#question").value = "third";
      document.querySelector("#question").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    }"""
    await page.evaluate(f"addEventListener('hashchange', {send}, {{ once: true }})")
    await page.get_by_role("link", name="first").click()
    await expect(page.locator(".turn .question")).to_have_text(["You: first", "You: third"])
    # A new one is there at once, before the browser tells of the new address.
    await page.evaluate(f"document.querySelector('#new').click(); ({send})()")
    await expect(page.locator(".turn .question")).to_have_text(["You: third"])
    await ended(page.locator(".turn").last)


async def test_a_press_on_the_steps_of_a_running_answer_counts_though_they_are_drawn_meanwhile(page, here):
    never = asyncio.Event()
    here.script("long", words("Begun"), never)
    turn = await ask(page, "long")
    await expect(turn).to_contain_text("Begun")
    summary = turn.locator("summary").first
    box = await summary.bounding_box()
    await page.mouse.move(box["x"] + 40, box["y"] + box["height"] / 2)
    await page.mouse.down()
    before = await summary.locator(".facts").text_content()
    await expect(summary.locator(".facts")).not_to_have_text(before)
    await page.mouse.up()
    await expect(turn.locator("details.steps")).to_have_js_property("open", False)


async def test_a_wrong_key_that_is_sent_twice_is_not_kept(visit, here):
    page = await visit()
    held = Held()
    await page.route("**/v1/usage", held)
    await enter(page, "sk-wrong")
    await eventually(lambda: held.waiting)
    await page.keyboard.press("Enter")
    held.go.set()
    await expect(page.get_by_role("alert").first).to_contain_text("This key is not accepted.")
    assert await page.evaluate(STORED) == [None, None]
    assert held.waiting == 1


async def test_a_list_that_comes_late_is_not_that_of_another_collection(page, here):
    for n in range(6):
        here.shelf.put(f"doc-{n}", ["t"], title=f"Title {n}", collection="legal" if n % 2 else "handbook")
    held = Held()
    await page.route("**/v1/documents?*", held)
    await page.get_by_role("tab", name="Documents").click()
    await eventually(lambda: held.waiting)
    await page.locator("#filter").select_option("legal")
    held.go.set()
    await expect(page.locator("#documents tr")).to_have_count(3)
    await expect(page.locator("#documents tr").first).to_contain_text("Title 1")


async def test_pressing_for_more_twice_brings_each_document_once(page, here):
    for n in range(120):
        here.shelf.put(f"doc-{n:03}", ["t"], title=f"Title {n:03}")
    await page.get_by_role("tab", name="Documents").click()
    rows = page.locator("#documents tr")
    await expect(rows).to_have_count(50)
    await page.evaluate("[1, 2, 3].forEach(() => document.querySelector('#more').click())")
    await expect(rows).to_have_count(120)
    ids = await rows.evaluate_all("rows => rows.map((row) => row.dataset.id)")
    assert len(set(ids)) == 120


async def test_a_deleted_document_does_not_come_back_with_a_list_that_was_on_its_way(page, here):
    for name in "abc":
        here.shelf.put(name, ["t"], title=f"Title {name}")
    await page.get_by_role("tab", name="Documents").click()
    rows = page.locator("#documents tr")
    await expect(rows).to_have_count(3)
    held = Held()
    await page.route("**/v1/documents?*", held)
    await page.get_by_role("button", name="Look again").first.click()
    await eventually(lambda: held.waiting)
    await page.get_by_role("button", name="Delete Title b").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(rows).to_have_count(2)
    async with page.expect_response(lambda response: "/v1/documents?" in response.url) as late:
        held.go.set()
    await (await late.value).finished()
    await expect(rows).to_have_count(2)
    await expect(page.get_by_role("button", name="Delete Title c")).to_be_focused()


async def test_rows_and_lines_that_look_the_same_stay_the_same_while_the_list_is_looked_at(page, here):
    here.shelf.put("a", ["t"], title="Title a")
    asked = []
    page.on("request", lambda request: "/v1/documents?" in request.url and asked.append(request.url))
    await page.get_by_role("tab", name="Documents").click()
    await page.locator("#files").set_input_files([{"name": "x.txt", "mimeType": "text/plain", "buffer": b"text"}])
    cancel = page.get_by_role("button", name="Cancel x.txt")
    await expect(page.locator(".upload .badge")).to_have_text("queued")
    await expect(page.get_by_role("button", name="Delete Title a")).to_be_visible()
    marked = "node => { node.dataset.mine = 'yes'; }"
    await cancel.evaluate(marked)
    await page.get_by_role("button", name="Delete Title a").evaluate(marked)
    seen = len(asked)
    await eventually(lambda: len(asked) >= seen + 3)
    await expect(cancel).to_have_attribute("data-mine", "yes")
    await expect(page.get_by_role("button", name="Delete Title a")).to_have_attribute("data-mine", "yes")
    await cancel.click()
    await expect(page.locator(".upload .badge")).to_have_text("cancelled")


async def test_a_file_that_is_chosen_before_the_collections_are_known_is_taken(page, here):
    held = Held()
    await page.route("**/v1/collections", held)
    await page.get_by_role("tab", name="Documents").click()
    await eventually(lambda: held.waiting)
    await page.locator("#files").set_input_files([{"name": "x.txt", "mimeType": "text/plain", "buffer": b"text"}])
    held.go.set()
    await expect(page.locator(".upload .badge")).to_have_text("queued")
    assert here.desk.headers[-1].collection == "legal"


async def test_nothing_is_said_to_be_missing_before_it_is_known(page, here):
    here.shelf.put("a", ["t"], title="Title a")
    held = Held()
    await page.route("**/v1/collections", held)
    await page.route("**/v1/documents?*", held)
    await page.get_by_role("tab", name="Documents").click()
    await eventually(lambda: held.waiting)
    missing = page.locator("#no-collections, #none")
    for language in ("Español", "English"):
        await page.get_by_role("button", name=language).click()
        assert [await one.is_visible() for one in await missing.all()] == [False, False]
        await expect(page.locator("#drop")).to_be_visible()
    held.go.set()
    await expect(page.locator("#documents tr")).to_contain_text("Title a")


async def test_the_focus_returns_to_a_document_whose_row_was_drawn_anew_behind_its_text(page, here):
    here.shelf.put("a", ["Some text."], title="Title a")
    await page.get_by_role("tab", name="Documents").click()
    await page.get_by_role("button", name="Title a", exact=True).click()
    await expect(page.get_by_role("dialog")).to_contain_text("Some text.")
    here.shelf.put("a", ["Some text.", "More."], title="Title a")
    await page.evaluate("document.querySelector('#reload').click()")
    await expect(page.locator("#documents tr")).to_contain_text("2 passages")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Title a", exact=True)).to_be_focused()
