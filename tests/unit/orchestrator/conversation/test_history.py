import asyncio
import itertools
import json

from services.orchestrator.conversation.history import Summarised, Windowed
from services.orchestrator.model import Message, ScriptedModel, Spent, Turn, Usage
from services.runtime.errors import DependencyFailed


def talk(turns):
    return [Message(("user", "assistant")[i % 2], f"{i:03d} " + "x" * 76) for i in range(2 * turns)]


def summary(text):
    return Turn(json.dumps({"summary": text}), usage=Usage(50, 5))


class Endless:
    """Never answers."""

    async def stream(self, messages, tools, sampling):
        await asyncio.Event().wait()
        yield


async def test_what_fits_costs_nothing():
    spent = Spent()
    fitted = await Summarised(ScriptedModel([])).fit(talk(2), 1_000, spent, 60)
    assert (list(fitted.messages), fitted.degraded, spent.turns) == (talk(2), (), 0)


async def test_older_turns_are_summed_up_and_the_newest_kept_word_by_word():
    model, spent = ScriptedModel([summary("They asked about 001.")]), Spent()
    history = [Message("system", "Be brief."), *talk(10)]
    fitted = await Summarised(model).fit(history, 240, spent, 60)
    kept = list(fitted.messages)
    assert kept[0] == history[0]
    assert kept[1].is_summary
    assert "They asked about 001." in kept[1].text
    assert kept[2:] == history[len(history) - len(kept) + 2 :]
    assert kept[2].role == "user"
    assert sum(message.tokens for message in kept[2:]) <= 180
    assert (spent.turns, spent.usage) == (1, Usage(50, 5))
    read = json.loads(model.requests[0][0][-1].text)
    assert [one["text"][:3] for one in read] == [f"{i:03d}" for i in range(len(history) - len(kept) + 1)]


async def test_a_summary_is_paid_once_and_the_prompt_keeps_its_beginning_from_question_to_question():
    model = ScriptedModel([summary(f"Summary {i}.") for i in range(60)])
    conversation, texts = Summarised(model), []
    for turns in range(1, 40):
        fitted = await conversation.fit(talk(turns), 480, Spent(), 60)
        texts.append("".join(message.text for message in fitted.messages))
    shared = sum(other.startswith(one) for one, other in itertools.pairwise(texts))
    assert shared >= 30
    assert len(model.requests) <= 8


async def test_a_summary_continues_the_one_before():
    model = ScriptedModel([summary("First."), summary("First and second.")])
    conversation = Summarised(model)
    await conversation.fit(talk(10), 240, Spent(), 60)
    await conversation.fit(talk(16), 240, Spent(), 60)
    read = json.loads(model.requests[1][0][-1].text)
    assert read[0] == {"role": "summary", "text": "First."}
    assert read[1]["text"][:3] != "000"


async def test_where_no_summary_comes_old_turns_are_left_out_and_that_is_said():
    for model in (
        ScriptedModel([DependencyFailed("down", dependency="model")]),
        ScriptedModel([Turn("no JSON")]),
        ScriptedModel([Turn('{"summary": ""}')]),
        ScriptedModel([Turn('{"summary": 7}')]),
    ):
        fitted = await Summarised(model).fit(talk(10), 240, Spent(), 60)
        assert list(fitted.messages) == list((await Windowed().fit(talk(10), 240, Spent(), 60)).messages)
        assert [one.service for one in fitted.degraded] == ["conversation"]


async def test_a_summary_has_its_time_and_no_more():
    fitted = await Summarised(Endless(), timeout_seconds=0.05).fit(talk(10), 240, Spent(), 60)
    assert fitted.degraded
    assert (await Summarised(Endless()).fit(talk(10), 240, Spent(), 0.05)).degraded


async def test_no_more_summaries_are_remembered_than_allowed():
    conversation = Summarised(ScriptedModel([summary("s")] * 9), max_kept=2)
    for start in range(4):
        await conversation.fit(talk(14)[2 * start :], 240, Spent(), 60)
    assert len(conversation._known) == 2


async def test_a_long_conversation_is_read_from_its_newer_end():
    history = [Message(("user", "assistant")[i % 2], f"{i:03d} " + "x" * 4_000) for i in range(60)]
    model = ScriptedModel([summary("s")])
    await Summarised(model).fit(history, 8_000, Spent(), 60)
    assert len(model.requests[0][0][-1].text) < 70_000
    assert not json.loads(model.requests[0][0][-1].text)[0]["text"].startswith("000")
