"""Asking on the page: answers as they come, what is done with them, and the conversations that are kept."""

import asyncio

import pytest
from playwright.async_api import expect

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from tests.e2e.scripted import end, finished, lost, overloaded, passage, started, thought, words

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ask(page, question):
    await page.get_by_label("Your question").fill(question)
    await page.keyboard.press("Enter")
    return page.locator(".turn").last


async def ended(turn):
    await expect(turn.locator("article")).to_have_attribute("aria-busy", "false")


async def test_steps_are_shown_while_they_run_and_what_runs_in_parallel_runs_there_too(page, here):
    both, one, rest = asyncio.Event(), asyncio.Event(), asyncio.Event()
    here.script(
        "parallel",
        thought(),
        started("a", "sql_query", query="SELECT 1", params=[5]),
        started("b", "vector_search", query="clauses"),
        both,
        finished("a", "sql_query", 20, "1 row"),
        one,
        finished("b", "vector_search", 40, "5 passages"),
        rest,
        words("There are 47."),
        end(),
    )
    turn = await ask(page, "parallel")
    await expect(turn.locator(".bars li")).to_have_count(3)
    await expect(turn.locator("summary").first).to_contain_text("Searching the database, the documents")
    await expect(turn.locator(".bar.running")).to_have_count(2)
    both.set()
    await expect(turn.locator(".bar.running")).to_have_count(1)
    await expect(turn.locator("summary").first).to_contain_text("Searching the documents")
    one.set()
    await expect(turn.locator(".bars li").last).to_contain_text("Model decides")
    rest.set()
    await ended(turn)
    await turn.locator("summary").first.click()
    await expect(turn.locator(".bars")).to_contain_text("5 passages")
    await expect(turn.locator(".timeline")).to_contain_text("Model 0.3s")


async def test_a_hit_of_the_cache_says_how_old_it_is_and_a_failure_what_failed(page, here):
    age = pb.ToolCallFinished(cache_age={"seconds": 130}).cache_age
    here.script(
        "cached",
        thought(text="First the count."),
        started("a", "sql_query", query="SELECT 1"),
        started("b", "web_search", query="cpi"),
        finished("a", "sql_query", 2, "1 row", from_cache=True, cache_age=age, cache_matched_text="how many?"),
        finished("b", "web_search", 900, "timeout after 5s", ok=False),
        lost("web_tool", "timeout"),
        words("47 [1]."),
        end(),
    )
    turn = await ask(page, "cached")
    await ended(turn)
    await expect(turn.locator("summary").first).to_contain_text("2 look-ups · 1 from the cache")
    await turn.locator("summary").first.click()
    await expect(turn.locator(".bars")).to_contain_text("First the count.")
    await expect(turn.locator(".badge")).to_contain_text("from the cache · 2 mins old · asked before as how many?")
    await expect(turn.locator(".outcome.bad")).to_contain_text("Failed: took longer than 5s")
    await expect(turn.locator(".notice.warn")).to_contain_text("Made without the web:")
    await turn.get_by_role("button", name="Ask again, without the cache").click()
    await expect(page.locator(".turn")).to_have_count(1)
    await ended(page.locator(".turn"))
    assert here.agent.requests[-1].options.cache == pb.CACHE_MODE_REFRESH


@pytest.mark.parametrize("how", ["escape", "button"])
async def test_a_running_answer_can_be_stopped(page, here, how):
    never = asyncio.Event()
    here.agent.cancelled.clear()
    here.script("long", words("The beginning "), never)
    turn = await ask(page, "long")
    await expect(turn).to_contain_text("The beginning")
    if how == "escape":
        await page.keyboard.press("Escape")
    else:
        await page.get_by_role("button", name="Stop").click()
    await ended(turn)
    await expect(turn).to_contain_text("You stopped this answer.")
    await expect(turn).to_contain_text("The beginning")
    async with asyncio.timeout(30):
        await here.agent.cancelled.wait()
    here.script("long", words("All of it."), end())
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.locator(".turn")).to_contain_text("All of it.")
    await expect(page.locator(".turn")).to_have_count(1)


async def test_an_answer_that_breaks_off_says_so_and_keeps_what_came(page, here):
    here.script("half", words("Half of "), overloaded())
    turn = await ask(page, "half")
    await ended(turn)
    await expect(turn.locator(".words")).to_contain_text("Half of")
    await expect(turn.locator(".notice.bad")).to_contain_text("The answer broke off here.")
    await expect(page.locator("#live")).to_contain_text("The answer broke off here.")


@pytest.mark.parametrize(
    ("finish", "reason", "said"),
    [
        (pb.FINISH_PARTIAL, "deadline", "Partial answer. There was not enough time to find everything."),
        (pb.FINISH_REFUSED, "no_evidence", "Nothing was found to answer from."),
    ],
    ids=["partial", "refused"],
)
async def test_an_answer_that_is_not_whole_is_marked(page, here, finish, reason, said):
    here.script("some", words("Some of it."), end(finish, reason))
    turn = await ask(page, "some")
    await expect(turn.locator(".notice")).to_contain_text(said)


async def test_a_refusal_of_too_many_requests_counts_down_and_then_lets_try_again(page, here):
    here.script("later", words("Here it is."), end())
    refusals = ["2"]

    async def answer(route):
        if not refusals:
            return await route.continue_()
        body = '{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}'
        headers = {"retry-after": refusals.pop(), "x-request-id": "r-1", "content-type": "application/json"}
        await route.fulfill(status=429, headers=headers, body=body)

    await page.route("**/v1/chat/completions", answer)
    turn = await ask(page, "later")
    again = turn.get_by_role("button", name="Try again")
    await expect(turn.locator(".notice")).to_contain_text("Too many requests in a minute.")
    await turn.locator(".technical summary").click()
    await expect(turn.locator(".technical code")).to_contain_text(
        "429 · rate_limit_exceeded · slow down · x-request-id: r-1"
    )
    await expect(again).to_be_enabled()
    await again.click()
    await expect(page.locator(".turn .words")).to_contain_text("Here it is.")


async def test_failures_are_told_in_words_of_people(page):
    refusals = [
        (403, "not_permitted", "This key may not do that."),
        (413, "request_too_large", "That is too large."),
        (429, "daily_tokens_exceeded", "The tokens of today are used up."),
        (503, "queue_full", "The service is overloaded or not ready."),
        (500, "internal_error", "Something went wrong in the server."),
        (418, "odd", "The request was not understood."),
    ]
    coming = iter(refusals)

    async def refuse(route):
        status, code, _ = next(coming)
        body = f'{{"error": {{"message": "m", "code": "{code}"}}}}'
        await route.fulfill(status=status, body=body, content_type="application/json")

    await page.route("**/v1/chat/completions", refuse)
    for status, code, said in refusals:
        turn = await ask(page, f"{status} {code}")
        await expect(turn.locator(".notice.bad strong")).to_have_text(said)


async def test_a_lost_connection_is_told_and_can_be_tried_again(page, here):
    await page.route("**/v1/chat/completions", lambda route: route.abort())
    turn = await ask(page, "offline")
    await expect(turn.locator(".notice")).to_contain_text("The server cannot be reached.")
    await page.unroute("**/v1/chat/completions")
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.locator(".turn .words")).to_contain_text("Nothing to say.")


async def test_the_answer_is_copied_with_its_sources(page, here):
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    here.script("copy me", words("A penalty of 2 % [1]."), passage(1, "d", "d#0", "2 %", section="8.3"), end())
    turn = await ask(page, "copy me")
    await turn.get_by_role("button", name="Copy the answer").click()
    await expect(page.locator("#live")).to_have_text("Copied.")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied == "A penalty of 2 % [1].\n\n[1] Contract 7 · 8.3"


async def test_a_thumb_and_a_comment_are_kept_and_stay_with_the_answer(page, here):
    here.script("rate me", words("Is it good?"), end(answer_id="ans-rated"))
    turn = await ask(page, "rate me")
    await turn.get_by_role("button", name="Not helpful").click()
    await expect(turn.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")
    await turn.get_by_label("What was wrong or missing?").fill("the year")
    async with page.expect_response("**/v1/feedback") as answered:
        await turn.get_by_role("button", name="Send").click()
    answer = await answered.value
    assert answer.status in (200, 201)
    assert answer.request.post_data_json == {"answer_id": "ans-rated", "rating": "down", "comment": "the year"}
    await expect(turn).to_contain_text("Thank you.")
    await page.reload()
    await expect(page.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")


async def test_thumbs_go_away_where_ratings_are_not_offered(page, here):
    await page.route("**/v1/feedback", lambda route: route.fulfill(status=501, body="{}"))
    turn = await ask(page, "any")
    await turn.get_by_role("button", name="Helpful", exact=True).click()
    await expect(page.locator(".thumb")).to_have_count(0)
    turn = await ask(page, "other")
    await ended(turn)
    await expect(page.locator(".thumb")).to_have_count(0)


async def test_conversations_are_kept_in_the_browser_renamed_and_deleted(page, here):
    here.script("first question", words("First answer."), end())
    await ended(await ask(page, "first question"))
    await page.get_by_role("button", name="New conversation").first.click()
    await expect(page.locator(".turn")).to_have_count(0)
    await ended(await ask(page, "second question"))
    listed = page.locator("#conversations a")
    await expect(listed).to_have_text(["second question", "first question"])
    await listed.last.click()
    await expect(page.locator(".turn")).to_contain_text("First answer.")
    await page.reload()
    await expect(page.locator(".turn")).to_contain_text("First answer.")
    await expect(page.locator("#conversations [aria-current=page]")).to_have_text("first question")
    await listed.last.focus()
    await page.get_by_role("button", name="Rename “first question”").click()
    await page.get_by_label("Title").fill("Holidays")
    await page.keyboard.press("Enter")
    await expect(listed).to_have_text(["second question", "Holidays"])
    await expect(page.locator("#chat-title")).to_have_text("Holidays")
    await listed.last.focus()
    await page.get_by_role("button", name="Delete “Holidays”").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(listed).to_have_count(2)
    await listed.last.focus()
    await page.get_by_role("button", name="Delete “Holidays”").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(listed).to_have_text(["second question"])
    await expect(page.locator(".turn")).to_have_count(0)


async def test_another_key_does_not_see_the_conversations(page, here):
    await ended(await ask(page, "secret question"))
    await page.goto(f"{here.url}/?again#key={here.key('sixty')}")
    await expect(page.locator("#app")).to_be_visible()
    await expect(page.locator("#conversations")).to_contain_text("None yet.")
    await page.goto(f"{here.url}/?back#key={here.key()}")
    await expect(page.locator("#conversations a")).to_have_text(["secret question"])


async def test_an_answer_goes_on_while_another_conversation_is_looked_at(page, here):
    go_on = asyncio.Event()
    here.script("slow", words("Part one, "), go_on, words("part two."), end())
    await expect(await ask(page, "slow")).to_contain_text("Part one")
    await page.get_by_role("button", name="New conversation").first.click()
    await ended(await ask(page, "meanwhile"))
    go_on.set()
    await page.get_by_role("link", name="slow").click()
    await expect(page.locator(".turn")).to_contain_text("Part one, part two.")


async def test_only_the_last_turns_are_sent_and_the_page_says_so(page, here):
    turns = """(async () => {
      const history = await import("/ask/history.js");
      const turn = (n) => ({
        question: `q${n}`, asked: 1, text: `a${n} [1].`, annotations: [], timeline: [], state: "done",
        summary: null, problem: null, feedback: null,
      });
      const turns = Array.from({length: 12}, (_, n) => turn(n));
      await history.put({id: "0123", owner: "demo/all", title: "long", updated: 1, turns});
    })()"""
    await page.evaluate(turns)
    await page.evaluate("location.hash = '#/c/0123'")
    await expect(page.locator(".turn")).to_have_count(12)
    await expect(page.locator(".divider")).to_have_text(
        "Only the last 10 questions and answers are sent along; what is above is not."
    )
    await ended(await ask(page, "and now?"))
    told = [(turn.role, turn.text) for turn in here.agent.requests[-1].history]
    assert len(told) == 20
    assert told[:2] == [("user", "q2"), ("assistant", "a2.")]
    assert told[-1] == ("assistant", "a11.")


async def test_an_answer_whose_page_was_closed_is_marked(page, here):
    never = asyncio.Event()
    here.script("interrupted", words("Just begun "), never)
    await expect(await ask(page, "interrupted")).to_contain_text("Just begun")
    await page.reload()
    await expect(page.locator(".turn .notice")).to_contain_text("The page was closed while it was written.")


async def test_a_conversation_that_is_deleted_while_it_is_answered_stays_deleted(page, here):
    never = asyncio.Event()
    here.agent.cancelled.clear()
    here.script("unwanted", words("Begun "), never)
    await expect(await ask(page, "unwanted")).to_contain_text("Begun")
    await page.locator("#conversations a").focus()
    await page.get_by_role("button", name="Delete “unwanted”").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.locator("#conversations")).to_contain_text("None yet.")
    async with asyncio.timeout(30):
        await here.agent.cancelled.wait()
    await page.reload()
    await expect(page.locator("#conversations")).to_contain_text("None yet.")
