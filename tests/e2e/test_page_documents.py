"""Documents on the page: several files on their way in, the list, and taking them away."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from sabueso.ingestion.v1 import ingestion_pb2 as pb
from tests.e2e.scripted import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


def file(name, content=b"some text"):
    return {"name": name, "mimeType": "text/plain", "buffer": content}


@pytest.fixture(autouse=True)
def clear(here):
    here.desk.jobs.clear()
    here.desk.headers.clear()
    here.shelf.documents["demo"] = {}


@pytest_asyncio.fixture(loop_scope="module")
async def documents(page):
    await page.get_by_role("tab", name="Documents").click()
    await expect(page.locator("#collection option")).to_have_text(["legal", "handbook"])
    return page


def job(here, source):
    return next(job for _, job in here.desk.jobs.values() if job.source == source)


async def test_each_file_shows_how_far_it_is_until_it_is_ready_or_failed(documents, here):
    await documents.get_by_label("Into the collection").select_option("handbook")
    await documents.locator("#files").set_input_files(
        [file("a.txt"), file("b.txt"), file("c.txt"), file("d.txt"), file("e.txt")]
    )
    lines = documents.locator(".upload")
    await expect(lines).to_have_count(5)
    await expect(lines.locator(".badge")).to_have_text(["queued"] * 5)
    assert {header.collection for header in here.desk.headers} == {"handbook"}
    a, b, c = (job(here, f"{name}.txt") for name in "abc")
    a.status = pb.JOB_STATUS_PARSING
    await expect(lines.nth(0).locator(".badge")).to_have_text("reading")
    a.status, a.chunk_count, a.total_chunk_count = pb.JOB_STATUS_EMBEDDING, 3, 12
    await expect(lines.nth(0).locator(".badge")).to_have_text("embedding 3/12")
    await expect(lines.nth(0).get_by_role("progressbar", name="Progress of a.txt")).to_have_js_property("value", 0.7)
    b.status, b.reason = pb.JOB_STATUS_FAILED, "It is encrypted."
    await expect(lines.nth(1)).to_contain_text("It is encrypted.")
    c.status = pb.JOB_STATUS_READY
    here.shelf.put(c.document_id, ["some text"], source="c.txt", collection="handbook")
    await expect(lines.nth(2).locator(".badge")).to_have_text("ready")
    await expect(documents.locator("#live")).to_have_text("c.txt: ready")
    await expect(documents.locator("#documents tr", has_text="c.txt")).to_contain_text("1 passage")
    await documents.get_by_role("button", name="Put away what has ended").click()
    await expect(lines).to_have_count(3)


async def test_a_failed_file_is_sent_again_and_a_running_one_cancelled(documents, here):
    answers = iter([(500, "internal_error")])

    async def fail_once(route):
        if route.request.method != "POST" or not (answer := next(answers, None)):
            return await route.continue_()
        await route.fulfill(status=answer[0], body=f'{{"error": {{"code": "{answer[1]}"}}}}')

    await documents.route("**/v1/documents", fail_once)
    await documents.locator("#files").set_input_files([file("again.txt")])
    line = documents.locator(".upload")
    await expect(line).to_contain_text("Something went wrong in the server.")
    await line.get_by_role("button", name="Try again.txt again").click()
    await expect(line.locator(".badge")).to_have_text("queued")
    await line.get_by_role("button", name="Cancel again.txt").click()
    await expect(line.locator(".badge")).to_have_text("cancelled")
    await eventually(lambda: job(here, "again.txt").status == pb.JOB_STATUS_CANCELLED)
    await expect(documents.locator("#none")).to_be_visible()


async def test_files_that_cannot_be_taken_are_refused_before_they_are_sent(documents, here):
    evaluate = "import('/documents/uploads.js').then((uploads) => uploads.limitTo(10))"
    await documents.evaluate(evaluate)
    await documents.locator("#files").set_input_files([file("empty.txt", b""), file("large.txt", b"x" * 11)])
    await expect(documents.locator(".upload .bad")).to_have_text(
        ["The file is empty.", "The file is larger than 10 byte, the most that is taken."]
    )
    assert here.desk.headers == []


async def test_files_can_be_dropped(documents, here):
    drop = """() => {
      const data = new DataTransfer();
      data.items.add(new File(["text"], "dropped.txt"));
      for (const type of ["dragenter", "drop"]) {
        const event = new DragEvent(type, { dataTransfer: data, bubbles: true });
        document.querySelector("#drop").dispatchEvent(event);
      }
    }"""
    await documents.evaluate(drop)
    await expect(documents.locator(".upload")).to_contain_text("dropped.txt")
    await expect(documents.locator(".upload .badge")).to_have_text("queued")


async def test_a_limit_of_requests_is_waited_for(documents, here):
    answers = iter([429])

    async def limit_once(route):
        if route.request.method != "POST" or not next(answers, None):
            return await route.continue_()
        await route.fulfill(status=429, headers={"retry-after": "1"}, body="{}")

    await documents.route("**/v1/documents", limit_once)
    await documents.locator("#files").set_input_files([file("patient.txt")])
    await expect(documents.locator(".upload .badge")).to_have_text("queued")


async def test_a_long_list_comes_in_pages_and_is_filtered_by_collection(documents, here):
    for n in range(60):
        here.shelf.put(f"doc-{n:02}", ["t"], title=f"Title {n:02}", collection="legal" if n % 2 else "handbook")
    await documents.get_by_role("button", name="Look again").first.click()
    listed = documents.locator("#documents tr")
    await expect(listed).to_have_count(50)
    await documents.get_by_role("button", name="Show more").click()
    await expect(listed).to_have_count(60)
    await expect(documents.get_by_role("button", name="Title 50", exact=True)).to_be_focused()
    await documents.locator("#filter").select_option("legal")
    await expect(listed).to_have_count(30)
    await expect(documents.get_by_role("button", name="Show more")).to_be_hidden()


async def test_deleting_asks_first_and_the_focus_stays_near(documents, here):
    for name in ("a", "b", "c"):
        here.shelf.put(name, ["t"], title=f"Title {name}")
    await documents.get_by_role("button", name="Look again").first.click()
    remove = documents.get_by_role("button", name="Delete Title b")
    await remove.click()
    dialog = documents.get_by_role("dialog")
    await expect(dialog).to_contain_text("Delete “Title b”?")
    await documents.keyboard.press("Escape")
    await expect(remove).to_be_focused()
    await remove.click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(documents.locator("#documents tr")).to_have_count(2)
    await expect(documents.get_by_role("button", name="Delete Title c")).to_be_focused()
    assert sorted(here.shelf.documents["demo"]) == ["a", "c"]


async def test_a_collection_can_be_made(documents, here):
    await documents.get_by_role("button", name="New collection").click()
    dialog = documents.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Not Good")
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog).to_be_visible()
    await dialog.get_by_label("Name").fill("invoices")
    await dialog.get_by_label("What it holds").fill("Bills")
    await dialog.get_by_role("button", name="Create").click()
    await expect(documents.get_by_label("Into the collection")).to_have_value("invoices")
    assert here.shelf.collections.pop("invoices").description == "Bills"


async def test_a_list_that_cannot_be_read_says_so(documents, here):
    await documents.route("**/v1/documents?*", lambda route: route.fulfill(status=503, body="{}"))
    await documents.get_by_role("button", name="Look again").first.click()
    await expect(documents.locator("#list-problem")).to_contain_text("The service is overloaded or not ready.")
