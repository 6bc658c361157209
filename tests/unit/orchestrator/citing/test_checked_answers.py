"""Checking as the agent does it: what the reader sees."""

import json

from services.orchestrator.agent import Agent
from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.events import Cited, Degraded, Finding, FindingKind, Finish, Finished
from services.orchestrator.model import ScriptedModel, Turn, Usage
from services.orchestrator.reflecting.model_reflection import ModelReflection
from services.orchestrator.reflecting.reflection import MARKED, Reflecting
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Task
from tests.unit.orchestrator.agent_world import COUNT, QUESTION, SEARCH, dispatcher, of, text_of


async def happening(model, judge=None, **task):
    agent = Agent(
        strategies(model, AskTheModel()), reviewer=EvidenceReviewer(), reflection=ModelReflection(judge or model)
    )
    return [event async for event in agent.run(Task(QUESTION, **task), dispatcher())]


def says(**fields):
    return Turn(json.dumps(fields), usage=Usage(100, 10))


async def test_a_wrong_mark_is_not_shown_and_a_wrong_number_is_owned_up_to():
    model = ScriptedModel(
        [Turn(calls=[SEARCH, COUNT]), Turn("There are 48 contracts [2]. Penalty of 2 % a month [1].")]
    )
    events = await happening(model)
    assert text_of(events) == (
        "There are 48 contracts . Penalty of 2 % a month [1].\n\nNote: I could not find this number in the sources: 48."
    )
    assert [one.mark for one in of(events, Cited)] == [1]
    assert [(one.kind, one.text, one.mark) for one in of(events, Finding)] == [
        (FindingKind.CITATION, "There are 48 contracts", 2),
        (FindingKind.NUMBER, "48", 0),
    ]
    assert events[-1].finish is Finish.ANSWERED


async def test_a_right_answer_is_left_alone():
    model = ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("There are 47 contracts [2], with a penalty of 2 % [1].")])
    events = await happening(model)
    assert text_of(events) == "There are 47 contracts [2], with a penalty of 2 % [1]."
    assert of(events, Finding) == of(events, Degraded) == []


async def test_reflection_marks_what_the_model_does_not_find_supported_and_shows_its_cost():
    model = ScriptedModel([Turn(calls=[COUNT]), Turn("There are 47 contracts [1]. They are all in Spain.")])
    judge = ScriptedModel([says(needs_evidence=True), says(unsupported=[2], useful=True)])
    events = await happening(model, judge, reflecting=Reflecting.MARK)
    assert text_of(events) == f"There are 47 contracts [1]. They are all in Spain. {MARKED}"
    assert [one.kind for one in of(events, Finding)] == [FindingKind.UNSUPPORTED]
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.checking == Usage(200, 20)
    assert end.usage.total >= 220


async def test_reflection_that_leaves_nothing_is_a_refusal():
    model = ScriptedModel([Turn(calls=[COUNT]), Turn("They are all in Spain [1].")])
    judge = ScriptedModel([says(needs_evidence=True), says(unsupported=[1], useful=False)])
    events = await happening(model, judge, reflecting=Reflecting.DROP)
    assert text_of(events).startswith("I do not have enough information")
    assert (events[-1].finish, events[-1].reason) == (Finish.REFUSED, "unsupported")


async def test_a_question_that_needs_no_evidence_is_answered_without_tools():
    model = ScriptedModel([Turn("You are welcome!")])
    judge = ScriptedModel([says(needs_evidence=False)])
    events = await happening(model, judge, reflecting=Reflecting.MARK)
    assert text_of(events) == "You are welcome!"
    assert model.requests[0][1] == []


async def test_without_reflection_the_model_is_not_asked_of_its_work():
    judge = ScriptedModel([])
    events = await happening(ScriptedModel([Turn(calls=[COUNT]), Turn("47 [1].")]), judge)
    assert judge.requests == []
    assert events[-1].checking == Usage()
