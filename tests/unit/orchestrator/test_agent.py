import asyncio
import json
from datetime import date

import pytest

from services.orchestrator.agent import Agent
from services.orchestrator.arguments import TypedForm
from services.orchestrator.dispatch import Dispatcher, ToolSet
from services.orchestrator.events import CallFinished, CallStarted, Cited, Finish, Finished, Text, Thought
from services.orchestrator.model import Message, Sampling, ScriptedModel, ToolCall, Turn, Usage
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.results import Degraded, Passage, Passages, Rows
from services.orchestrator.run import Limits, Task
from services.orchestrator.tools import SqlQuery, Tool, VectorSearch
from services.runtime.errors import DeadlineExceeded, DependencyFailed, LimitExceeded

QUESTION = "How many contracts did we sign?"


def call(call_id, name, **arguments):
    return ToolCall(call_id, name, json.dumps(arguments))


SEARCH = call("s", "vector_search", query="penalty")
COUNT = call("q", "sql_query", query="SELECT count(*) FROM contracts")


def passages(*texts, degraded=()):
    found = (Passage("doc", str(i), "Contract", "c.pdf", 1, "8.3", "en", text) for i, text in enumerate(texts))
    return Passages(tuple(found), degraded)


async def search(arguments, seconds):
    return passages("Penalty of 2 % a month.")


async def count(arguments, seconds):
    return Rows(arguments.query, "[]", ("count",), ((47,),))


def fails(error):
    async def call(arguments, seconds):
        raise error

    return call


async def hangs(arguments, seconds):
    await asyncio.sleep(60)


def tool(name, call, timeout=5.0):
    service, arguments, result = {
        "vector_search": ("retrieval", VectorSearch, Passages),
        "sql_query": ("sql_tool", SqlQuery, Rows),
    }[name]
    return Tool(name, service, f"Does {name}.", TypedForm(arguments), result, call, timeout)


def dispatcher(vector_search=search, sql_query=count, *, lost=None, timeout=5.0):
    tools = [tool("vector_search", vector_search, timeout), tool("sql_query", sql_query, timeout)]
    return Dispatcher(ToolSet({one.name: one for one in tools}, lost or {}), ResultCache(MemoryStore()))


async def collect(model, tools=None, *, limits=None, **task):
    agent = Agent(model, limits or Limits(), today=lambda: date(2025, 11, 29))
    return [event async for event in agent.run(Task(QUESTION, **task), tools or dispatcher())]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def text_of(events):
    return "".join(event.text for event in of(events, Text))


def observations(model):
    """What the tools said, as the model saw it in its last turn."""
    return [json.loads(message.text) for message in model.requests[-1][0] if message.role == "tool"]


async def test_two_tools_run_and_the_answer_is_cited():
    model = ScriptedModel(
        [
            Turn("I need both.", [SEARCH, COUNT], Usage(100, 20)),
            Turn("There are 47 [2], with a penalty [1], see [1].", usage=Usage(200, 30)),
        ]
    )
    events = await collect(model)
    assert events[:3] == [
        Thought(1, "I need both."),
        CallStarted(1, "s", "vector_search", '{"query": "penalty"}'),
        CallStarted(1, "q", "sql_query", '{"query": "SELECT count(*) FROM contracts"}'),
    ]
    assert {(one.call_id, one.ok, one.summary) for one in of(events, CallFinished)} == {
        ("s", True, "1 passage"),
        ("q", True, "1 row"),
    }
    assert text_of(events) == "There are 47 [2], with a penalty [1], see [1]."
    assert [(one.mark, type(one.source)) for one in of(events, Cited)] == [(2, Rows), (1, Passage)]
    end = events[-1]
    assert (end.finish, end.reason, end.iterations) == (Finish.ANSWERED, "", 2)
    assert end.usage == Usage(300, 50)
    assert end.answer_id.startswith("ans_")
    assert len(of(events, Finished)) == 1
    assert [one["n"] if "n" in one else one["passages"][0]["n"] for one in observations(model)] == [1, 2]


async def test_the_tools_of_a_turn_run_at_the_same_time():
    met = asyncio.Barrier(2)

    async def search_together(arguments, seconds):
        await met.wait()
        return await search(arguments, seconds)

    async def count_together(arguments, seconds):
        await met.wait()
        return await count(arguments, seconds)

    model = ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("Done [1].")])
    tools = dispatcher(search_together, count_together, timeout=1)
    assert (await collect(model, tools))[-1].finish is Finish.ANSWERED


async def test_a_call_that_ends_first_is_told_first_and_the_model_reads_in_its_own_order():
    async def slowly(arguments, seconds):
        await asyncio.sleep(0.05)
        return await search(arguments, seconds)

    model = ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("Done [1].")])
    events = await collect(model, dispatcher(slowly))
    assert [one.call_id for one in of(events, CallFinished)] == ["q", "s"]
    assert list(observations(model)[0]) == ["passages"]


async def test_a_greeting_needs_no_tool():
    events = await collect(ScriptedModel([Turn("Hello! How can I help?")]))
    assert text_of(events) == "Hello! How can I help?"
    assert (events[-1].finish, events[-1].iterations) == (Finish.ANSWERED, 1)


async def test_a_thought_is_not_shown_as_answer():
    model = ScriptedModel([Turn("Let me look this up.", [SEARCH]), Turn("A penalty [1].")])
    assert text_of(await collect(model)) == "A penalty [1]."


async def test_the_answer_is_shown_piece_by_piece_once_there_is_evidence():
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty of two per cent a month [1].")])
    assert len(of(await collect(model), Text)) > 3


async def test_text_before_further_calls_is_followed_by_a_new_paragraph():
    model = ScriptedModel(
        [Turn(calls=[SEARCH]), Turn("A penalty [1]. Now the count.", [COUNT]), Turn("There are 47 [2].")]
    )
    events = await collect(model)
    assert text_of(events) == "A penalty [1]. Now the count.\n\nThere are 47 [2]."
    assert events[-1].finish is Finish.ANSWERED


async def test_empty_lines_before_a_turn_are_not_shown():
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn("\n\n", [COUNT]), Turn("\n\nThere are 47 [2].")], piece_chars=1)
    assert text_of(await collect(model)) == "There are 47 [2]."


async def test_marks_without_evidence_are_dropped():
    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty [1][2][7].")]))
    assert text_of(events) == "A penalty [1]."
    assert [one.mark for one in of(events, Cited)] == [1]


async def test_an_answer_without_marks_gets_no_citations():
    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty.")]))
    assert of(events, Cited) == []
    assert events[-1].finish is Finish.ANSWERED


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (call("x", "vector_search", qery="a"), "qery"),
        (ToolCall("x", "vector_search", '{"query": "a"'), "Invalid JSON"),
        (ToolCall("x", "vector_search", ""), "query"),
        (call("x", "drop_table"), "there are: vector_search, sql_query"),
    ],
)
async def test_a_wrong_call_is_told_to_the_model_and_to_nobody_else(wrong, says):
    model = ScriptedModel([Turn(calls=[wrong]), Turn(calls=[SEARCH]), Turn("A penalty [1].")])
    events = await collect(model)
    said = observations(model)[0]
    assert says in said["error"]
    assert said["tool"] == wrong.name
    assert of(events, Degraded) == []
    assert events[-1].finish is Finish.ANSWERED


async def test_a_lost_service_is_named_and_the_answer_is_partial():
    model = ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("A penalty [1]; the count could not be had.")])
    error = DependencyFailed("sql_tool does not answer.", dependency="sql_tool")
    events = await collect(model, dispatcher(sql_query=fails(error)))
    assert observations(model)[1] == {"error": "sql_tool does not answer", "tool": "sql_query"}
    assert of(events, Degraded) == [Degraded("sql_tool", "sql_tool does not answer")]
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "tool_failed")


async def test_a_tool_that_works_at_the_second_attempt_leaves_a_whole_answer():
    answers = [DependencyFailed("retrieval does not answer."), None]

    async def flaky(arguments, seconds):
        error = answers.pop(0)
        if error:
            raise error
        return await search(arguments, seconds)

    again = call("s2", "vector_search", query="penalty clause")
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn(calls=[again]), Turn("A penalty [1].")])
    assert (await collect(model, dispatcher(flaky)))[-1].finish is Finish.ANSWERED


async def test_a_slow_tool_is_left_behind():
    model = ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("A penalty [1].")])
    events = await collect(model, dispatcher(sql_query=hangs, timeout=0.1))
    assert observations(model)[1]["error"] == "timeout after 0.1s"
    assert of(events, Degraded) == [Degraded("sql_tool", "timeout after 0.1s")]


async def test_what_a_service_skipped_is_passed_on():
    async def without_reranking(arguments, seconds):
        return passages("A penalty.", degraded=(Degraded("reranking", "reranking does not answer"),))

    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty [1].")]), dispatcher(without_reranking))
    assert of(events, Degraded) == [Degraded("reranking", "reranking does not answer")]
    assert events[-1].finish is Finish.ANSWERED


async def test_a_tool_that_is_lost_from_the_start_is_named():
    lost = {"web_search": Degraded("web_tool", "web_tool does not answer")}
    model = ScriptedModel([Turn(calls=[call("w", "web_search", query="x"), SEARCH]), Turn("A penalty [1].")])
    events = await collect(model, dispatcher(lost=lost))
    assert events[0] == lost["web_search"]
    assert observations(model)[0] == {"error": "web_tool does not answer", "tool": "web_search"}
    assert len(of(events, Degraded)) == 1
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "tool_failed")


async def test_after_its_turns_the_model_must_answer_without_tools():
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn(calls=[COUNT]), Turn("47 [2]; more was not to be had.")])
    events = await collect(model, max_iterations=2)
    assert [tools for _, tools in model.requests] == [["vector_search", "sql_query"]] * 2 + [[]]
    assert "Answer my question now" in model.requests[-1][0][-1].text
    assert text_of(events) == "47 [2]; more was not to be had."
    assert (events[-1].finish, events[-1].reason, events[-1].iterations) == (Finish.PARTIAL, "iterations", 3)


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize(
    "stubborn",
    [SEARCH, call("x", "no_such_tool"), ToolCall("b", "vector_search", '{"query": "pena')],
    ids=["the same search", "no such tool", "broken JSON"],
)
async def test_a_model_that_never_stops_calling_is_stopped_at_the_limit(stubborn, limit):
    model = ScriptedModel([Turn(calls=[stubborn])] * limit + [Turn("That is all.")])
    events = await collect(model, max_iterations=limit)
    assert len(model.requests) == limit + 1
    assert len(observations(model)) == limit  # each attempt was told to the model
    assert model.requests[-1][1] == []
    assert events[-1].reason == "iterations"
    assert events[-1].finish is not Finish.ANSWERED


async def test_the_token_budget_ends_the_loop():
    steps = [Turn(calls=[SEARCH], usage=Usage(900, 100)), Turn("A penalty [1].", usage=Usage(500, 50))]
    events = await collect(ScriptedModel(steps), limits=Limits(run_tokens=2_500))
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "tokens")
    assert events[-1].usage.total < 2_500


async def test_an_answer_that_is_cut_is_partial():
    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty [1] of", cut=True)]))
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "tokens")


async def test_the_deadline_leaves_time_for_a_last_turn():
    class SlowWithTools(ScriptedModel):
        async def stream(self, messages, tools, sampling):
            if tools and len(self.requests) == 1:
                self.requests.append((list(messages), ["slow"]))
                await asyncio.sleep(60)
            async for part in super().stream(messages, tools, sampling):
                yield part

    model = SlowWithTools([Turn(calls=[SEARCH]), Turn(), Turn("A penalty [1].")])
    events = await collect(model, seconds=3, limits=Limits(reserve_seconds=1))
    assert text_of(events) == "A penalty [1]."
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "deadline")


async def test_when_even_the_last_turn_is_late_we_answer_from_the_evidence():
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn("never"), Turn("never")], delay_seconds=0.6)
    model.piece_seconds = 60
    events = await collect(model, seconds=2)
    assert "This is what I found so far:\n- Contract, 8.3: «Penalty of 2 % a month.» [1]" in text_of(events)
    assert [one.mark for one in of(events, Cited)] == [1]
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "deadline")


async def test_an_answer_under_way_may_use_the_reserve():
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty of 2 % [1]." * 3)], piece_chars=21)
    model.piece_seconds = 0.12
    events = await collect(model, seconds=0.6, limits=Limits(reserve_seconds=0.2))
    assert text_of(events) == "A penalty of 2 % [1]." * 3
    assert events[-1].finish is Finish.ANSWERED


async def test_an_answer_broken_off_by_the_deadline_is_not_begun_again():
    model = ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("A penalty [1] and more " * 50), Turn("Again!")])
    model.piece_seconds = 0.05
    events = await collect(model, seconds=0.5)
    text = text_of(events)
    assert len(model.requests) == 2
    assert text.startswith("A penalty [1]")
    assert "\n\nThe answer above is cut off (the time is used up)." in text
    assert "count = 47 [2]" in text
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "deadline")


MODEL_DOWN = DependencyFailed("The model does not answer.", dependency="model")


async def test_without_a_model_there_is_no_answer():
    with pytest.raises(DependencyFailed):
        await collect(ScriptedModel([MODEL_DOWN]))


async def test_used_up_model_limits_are_told_as_such():
    with pytest.raises(LimitExceeded):
        await collect(ScriptedModel([LimitExceeded("Used up.", setting="model")]))


async def test_a_model_that_never_answers_is_a_missed_deadline():
    with pytest.raises(DeadlineExceeded):
        await collect(ScriptedModel([Turn("late")] * 2, delay_seconds=60), seconds=0.3)


async def test_a_model_that_fails_after_evidence_leaves_a_partial_answer():
    events = await collect(ScriptedModel([Turn(calls=[COUNT]), MODEL_DOWN]))
    assert "count = 47 [1]" in text_of(events)
    assert of(events, Degraded) == [Degraded("model", "The model does not answer")]
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "tool_failed")


async def test_a_model_that_fails_when_nothing_was_found_is_an_error():
    async def nothing(arguments, seconds):
        return passages()

    with pytest.raises(DependencyFailed):
        await collect(ScriptedModel([Turn(calls=[SEARCH]), MODEL_DOWN]), dispatcher(nothing))


async def test_an_empty_reply_gets_one_more_turn():
    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn(""), Turn("A penalty [1].")]))
    assert text_of(events) == "A penalty [1]."
    assert events[-1].finish is Finish.ANSWERED


async def test_a_model_that_stays_silent_leaves_a_partial_answer():
    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn(""), Turn(" ")]))
    assert "«Penalty of 2 % a month.» [1]" in text_of(events)
    assert events[-1].finish is Finish.PARTIAL


async def test_a_model_that_says_nothing_at_all_has_failed():
    with pytest.raises(DependencyFailed, match="no answer"):
        await collect(ScriptedModel([Turn(""), Turn("")]))


async def test_nothing_found_is_a_refusal():
    async def nothing(arguments, seconds):
        return passages()

    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn("I found nothing.")]), dispatcher(nothing))
    assert (events[-1].finish, events[-1].reason) == (Finish.REFUSED, "no_evidence")


async def test_nothing_reached_is_a_refusal_that_names_the_failure():
    down = dispatcher(fails(DependencyFailed("retrieval does not answer.")))
    events = await collect(ScriptedModel([Turn(calls=[SEARCH]), Turn("I could not search.")]), down)
    assert (events[-1].finish, events[-1].reason) == (Finish.REFUSED, "tool_failed")


async def test_call_ids_are_unique_in_a_run_even_if_the_models_are_not():
    first, second = call("call_0", "vector_search", query="a"), call("call_0", "vector_search", query="b")
    unnamed = call("", "vector_search", query="c")
    model = ScriptedModel([Turn(calls=[first, second]), Turn(calls=[unnamed]), Turn("Done [1].")])
    events = await collect(model)
    ids = [one.call_id for one in of(events, CallStarted)]
    assert len(set(ids)) == 3
    assert all(ids)
    assert [one.call_id for one in of(events, CallFinished)] == ids
    assert [message.call_id for message in model.requests[-1][0] if message.role == "tool"] == ids


async def test_short_answers_leave_room_for_a_statement_until_there_is_evidence():
    class Noting(ScriptedModel):
        def stream(self, messages, tools, sampling):
            noted.append(sampling.max_tokens)
            return super().stream(messages, tools, sampling)

    noted = []
    await collect(Noting([Turn(calls=[SEARCH]), Turn("Yes [1].")]), sampling=Sampling(max_tokens=20))
    assert noted == [1024, 20]


async def test_history_reaches_the_model():
    model = ScriptedModel([Turn("As I said, 47.")])
    await collect(model, history=[Message("user", "Count!"), Message("assistant", "47")])
    assert [message.text for message in model.requests[0][0][1:]] == ["Count!", "47", QUESTION]


async def test_what_tools_spend_on_the_model_counts_as_usage_and_against_the_budget():
    async def spending(arguments, seconds):
        tools.toolset.spent.usage += Usage(5_000, 100)
        return await search(arguments, seconds)

    tools = dispatcher(spending)
    model = ScriptedModel([Turn(calls=[SEARCH], usage=Usage(100, 10)), Turn("A penalty [1].", usage=Usage(200, 20))])
    end = (await collect(model, tools, limits=Limits(run_tokens=5_000)))[-1]
    assert end.usage == Usage(5_300, 130)
    assert (end.finish, end.reason) == (Finish.PARTIAL, "tokens")
    assert model.requests[-1][1] == []  # the last turn has no tools


async def test_a_step_tells_what_was_searched():
    async def widened(arguments, seconds):
        found = passages("Penalty.")
        return Passages(
            found.passages, queries=("penalty", "fine"), transform="multi_query", collections=("contracts",)
        )

    model = ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty [1].")])
    [ended] = of(await collect(model, dispatcher(widened)), CallFinished)
    assert (ended.queries, ended.query_transform) == (("penalty", "fine"), "multi_query")
    assert ended.collections == ("contracts",)


async def test_who_stops_listening_cancels_the_tools():
    cancelled = asyncio.Event()

    async def waits(arguments, seconds):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def listen():
        await collect(ScriptedModel([Turn(calls=[SEARCH])]), dispatcher(waits, timeout=30))

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.05)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert cancelled.is_set()


async def test_timings_say_where_the_time_went():
    async def slowly(arguments, seconds):
        await asyncio.sleep(0.1)
        return await search(arguments, seconds)

    model = ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("Done [1].")], delay_seconds=0.05)
    timings = (await collect(model, dispatcher(slowly)))[-1].timings
    assert 0.1 <= timings.model < 0.2
    assert 0.1 <= timings.tools < 0.2
    assert timings.total == pytest.approx(timings.model + timings.tools + timings.cache + timings.overhead)
    assert timings.overhead < 0.05
