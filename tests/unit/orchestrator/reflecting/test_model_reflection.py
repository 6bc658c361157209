import asyncio
import json

import pytest

from services.orchestrator.citing.review import Draft
from services.orchestrator.events import Finding, FindingKind
from services.orchestrator.model import Message, ScriptedModel, Spent, Turn, Usage
from services.orchestrator.reflecting.model_reflection import ModelReflection
from services.orchestrator.reflecting.reflection import MARKED, Reflecting
from services.orchestrator.results import Page, Pages, Passage, Passages, Rows
from services.runtime.errors import DependencyFailed

QUESTION = "How many days may be carried over?"


def says(**fields):
    return Turn(json.dumps(fields), usage=Usage(100, 10))


def asking(*steps):
    model = ScriptedModel(list(steps))
    return ModelReflection(model), model


def passages(*texts):
    return Passages(tuple(Passage("d", str(at), f"T{at}", "", 0, "", "en", text) for at, text in enumerate(texts)))


def draft(answer, *texts):
    sources = {at: Passage("d", str(at), "T", "", 0, "", "en", text) for at, text in enumerate(texts, start=1)}
    return Draft(QUESTION, answer, sources, shown=False)


def asked(model, turn=0):
    """What the model was given, and the form that it had to fill in."""
    return json.loads(model.requests[turn][0][-1].text)


@pytest.mark.parametrize("needed", [True, False])
async def test_the_model_says_whether_evidence_is_needed(needed):
    reflection, model = asking(says(needs_evidence=needed))
    spent = Spent()
    history = [Message("system", "s"), Message("user", "Hello"), Message("assistant", "Hello!")]
    assert await reflection.needs_evidence("Thanks!", history, spent, 30) is needed
    assert [message.text for message in model.requests[0][0][1:]] == ["Hello", "Hello!", "Thanks!"]
    assert (spent.usage, spent.turns) == (Usage(100, 10), 1)


@pytest.mark.parametrize("step", [Turn("maybe"), DependencyFailed("The model does not answer.")])
async def test_where_the_model_fails_everything_is_needed_relevant_and_right(step):
    found, answer = passages("a", "b"), draft("Five days [1].", "Five days.")
    assert await asking(step)[0].needs_evidence(QUESTION, (), Spent(), 30) is True
    assert await asking(step)[0].relevant(QUESTION, found, Spent(), 30) == found
    review = await asking(step)[0].judge(answer, Reflecting.DROP, Spent(), 30)
    assert (review.answer, list(review.findings), review.withdrawn) == (answer.answer, [], False)
    assert review.degraded[0].service == "reflection"


async def test_a_model_that_is_late_is_not_waited_for():
    class Slow(ScriptedModel):
        async def stream(self, messages, tools, sampling):
            await asyncio.sleep(600)
            yield Turn()

    assert await ModelReflection(Slow([])).needs_evidence(QUESTION, (), Spent(), 0.1) is True


async def test_without_time_nothing_is_asked():
    reflection, model = asking()
    assert await reflection.needs_evidence(QUESTION, (), Spent(), 0) is True
    assert model.requests == []


async def test_passages_that_do_not_help_are_left_out():
    reflection, model = asking(says(relevant=[3, 1, 9]))
    found = await reflection.relevant(QUESTION, passages("one", "two", "three"), Spent(), 30)
    assert [one.text for one in found.passages] == ["one", "three"]
    assert [one["number"] for one in asked(model)["passages"]] == [1, 2, 3]


async def test_pages_are_judged_likewise():
    reflection, _ = asking(says(relevant=[2]))
    found = await reflection.relevant(QUESTION, Pages((Page("u", "a", "x", ""), Page("v", "b", "y", ""))), Spent(), 30)
    assert [one.url for one in found.pages] == ["v"]


async def test_where_nothing_is_relevant_the_best_is_kept():
    found = await asking(says(relevant=[]))[0].relevant(QUESTION, passages("one", "two"), Spent(), 30)
    assert [one.text for one in found.passages] == ["one"]


@pytest.mark.parametrize("found", [Rows("SELECT 1", "[]", ("a",), ((1,),)), passages("one"), passages()])
async def test_rows_and_what_there_is_but_one_of_are_not_judged(found):
    reflection, model = asking()
    assert await reflection.relevant(QUESTION, found, Spent(), 30) == found
    assert model.requests == []


ANSWER = "Five days may be carried over [1]. They must be taken in May [1].\n\n- Ask your manager [2]."
SOURCES = ("Five days may be carried over.", "The manager decides.")


async def test_an_unsupported_sentence_is_marked_behind_its_citations():
    reflection, model = asking(says(unsupported=[2], useful=True))
    review = await reflection.judge(draft(ANSWER, *SOURCES), Reflecting.MARK, Spent(), 30)
    assert review.answer == ANSWER.replace("in May [1].", f"in May [1]. {MARKED}")
    assert review.findings == [
        Finding(
            FindingKind.UNSUPPORTED, "They must be taken in May .", "the model, asked again, does not find it supported"
        )
    ]
    assert [(one["number"], one["cites"]) for one in asked(model)["sentences"]] == [(1, [1]), (2, [1]), (3, [2])]
    assert [one["number"] for one in asked(model)["sources"]] == [1, 2]


async def test_an_unsupported_sentence_is_left_out():
    reflection, _ = asking(says(unsupported=[2], useful=True))
    review = await reflection.judge(draft(ANSWER, *SOURCES), Reflecting.DROP, Spent(), 30)
    assert "in May" not in review.answer
    assert review.answer.startswith("Five days may be carried over [1].")
    assert review.answer.endswith("- Ask your manager [2].")
    assert not review.withdrawn


@pytest.mark.parametrize(
    ("question", "refusal"),
    [("¿Cuántos días se pueden trasladar?", "No tengo información suficiente"), (QUESTION, "I do not have enough")],
)
async def test_an_answer_of_which_nothing_is_left_is_withdrawn(question, refusal):
    reflection, _ = asking(says(unsupported=[1, 2, 3], useful=False))
    judged = Draft(question, ANSWER, draft(ANSWER, *SOURCES).sources, shown=False)
    review = await reflection.judge(judged, Reflecting.DROP, Spent(), 30)
    assert review.withdrawn
    assert review.answer.startswith(refusal)


async def test_an_answer_that_is_not_useful_says_so_and_stands():
    reflection, _ = asking(says(unsupported=[], useful=False))
    review = await reflection.judge(draft(ANSWER, *SOURCES), Reflecting.MARK, Spent(), 30)
    assert (review.answer, [one.kind for one in review.findings]) == (ANSWER, [FindingKind.NOT_USEFUL])


@pytest.mark.parametrize("answer", ["", "[1]", "\n\n"])
async def test_nothing_is_asked_of_an_answer_that_says_nothing(answer):
    reflection, model = asking()
    assert (await reflection.judge(draft(answer, "x"), Reflecting.DROP, Spent(), 30)).answer == answer
    assert model.requests == []
