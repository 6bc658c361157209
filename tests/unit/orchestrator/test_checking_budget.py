"""What checks cost counts against the run, and they are left out where there is nothing left for them."""

import asyncio
import json
import sys

import pytest

from services.orchestrator.budget import Budget
from services.orchestrator.events import Finish
from services.orchestrator.model import Message, Sampling, ScriptedModel, Spent, Turn, Usage, whole_turn
from services.orchestrator.reflecting.model_reflection import ModelReflection
from services.orchestrator.reflecting.reflection import Reflecting
from services.runtime.errors import LimitExceeded
from tests.unit.orchestrator.agent_world import SEARCH, agent_of, collect, text_of

QUESTION = [Message("user", "x" * 400)]


async def test_a_check_that_there_are_no_tokens_for_is_not_made():
    model, spent = ScriptedModel([Turn("{}")]), Spent(room=lambda: 120)
    with pytest.raises(LimitExceeded):
        await whole_turn(model, QUESTION, Sampling(max_tokens=100), spent)
    assert model.requests == []
    assert (spent.usage.total, spent.turns, spent.held) == (0, 0, 0)


async def test_a_check_writes_no_more_than_there_is_room_for():
    asked = []

    class Noting:
        async def stream(self, messages, tools, sampling):
            asked.append(sampling.max_tokens)
            yield Turn("{}", usage=Usage(104, 1))

    await whole_turn(Noting(), QUESTION, Sampling(max_tokens=100), Spent(room=lambda: 164))
    await whole_turn(Noting(), QUESTION, Sampling(max_tokens=100), Spent(room=lambda: sys.maxsize))
    await whole_turn(Noting(), QUESTION, Sampling(max_tokens=100), Spent())
    assert asked == [60, 100, 100]


async def test_what_a_check_may_cost_is_kept_from_others_until_it_ends():
    spent = Spent()
    budget = Budget(1_000, beside=(spent,))
    model = ScriptedModel([Turn("{}", usage=Usage(104, 10))], delay_seconds=0.01)
    checking = asyncio.create_task(whole_turn(model, QUESTION, Sampling(max_tokens=100), spent))
    await asyncio.sleep(0)
    assert budget.left == 1_000 - 104 - 100
    await checking
    assert budget.left == 1_000 - 114


async def test_a_held_answer_of_nothing_but_marks_of_nothing_is_replaced():
    """Held text is shown after the checks, and it is only then that the filters take out what stands for nothing."""
    model = ScriptedModel([Turn("", [SEARCH]), Turn("[9]")])
    judge = ScriptedModel(
        [Turn(json.dumps({"needs_evidence": True})), Turn(json.dumps({"unsupported": [], "useful": True}))]
    )
    agent = agent_of(model, reflection=ModelReflection(judge))
    events = await collect(None, agent=agent, reflecting=Reflecting.MARK)
    assert "Penalty of 2 %" in text_of(events)
    assert events[-1].finish is Finish.PARTIAL
