"""First calls of a question that is asked again: made without a turn of the model, and only where they may be."""

import pytest

from services.orchestrator.agent import Agent
from services.orchestrator.events import CallFinished, Chosen, Finish
from services.orchestrator.first_calls import Remembering
from services.orchestrator.model import Message, Sampling, ScriptedModel, Turn
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Task
from services.orchestrator.turn_cache import CacheMode
from services.runtime.errors import DependencyFailed
from tests.unit.orchestrator.agent_world import COUNT, QUESTION, SEARCH, call, dispatcher, fails, finds_nothing, of

ANSWER = Turn("There are 47 [2], with a penalty [1].")
ASKED = [Turn(calls=[SEARCH, COUNT]), ANSWER]


class World:
    """Asks questions of agents that share a cache. `ask` gives the events, and how often the model was asked."""

    def __init__(self):
        self.store = MemoryStore()
        self.cache = ResultCache(self.store)

    async def ask(self, *steps, seconds=60, model="m", mode=CacheMode.USE, tools=None, question=QUESTION, **task):
        scripted = ScriptedModel(steps)
        agent = Agent(strategies(scripted, AskTheModel(), None, Remembering(seconds, model)))
        made = dispatcher(**(tools or {}), cache_mode=mode)
        made.cache = self.cache
        events = [event async for event in agent.run(Task(question, **task), made)]
        await self.cache.close()
        return events, len(scripted.requests)


@pytest.fixture
def world():
    return World()


async def test_a_question_asked_again_begins_without_the_model(world):
    await world.ask(*ASKED)
    events, turns = await world.ask(ANSWER)
    assert turns == 1
    assert [one.reason for one in of(events, Chosen)][1:] == ["with the calls that answered the same question before"]
    assert [(one.tool, one.ok) for one in of(events, CallFinished)] == [("vector_search", True), ("sql_query", True)]
    assert (events[-1].finish, events[-1].iterations) == (Finish.ANSWERED, 1)


async def test_the_model_may_go_on_where_the_recalled_calls_do_not_suffice(world):
    await world.ask(*ASKED)
    more = call("m", "vector_search", query="deadline")
    events, turns = await world.ask(Turn(calls=[more]), Turn("There are 47 [2], within ten days [3]."))
    assert (turns, events[-1].finish) == (2, Finish.ANSWERED)


async def test_what_a_longer_answer_began_with_is_what_is_kept(world):
    more = call("m", "vector_search", query="deadline")
    await world.ask(Turn(calls=[COUNT]), Turn(calls=[more]), Turn("There are 47 [1], within ten days [2]."))
    events, _ = await world.ask(Turn("There are 47 [1]."))
    assert [one.tool for one in of(events, CallFinished)] == ["sql_query"]


@pytest.mark.parametrize(
    "other",
    [
        {"question": "How many contracts did they sign?"},
        {"model": "another"},
        {"history": [Message("user", "Only those of 2024.")]},
        {"sampling": Sampling(temperature=0.7)},
        {"mode": CacheMode.OFF},
        {"mode": CacheMode.REFRESH},
        {"seconds": 0},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_another_question_or_way_of_asking_begins_with_the_model(world, other):
    await world.ask(*ASKED)
    assert (await world.ask(*ASKED, **other))[1] == 2


@pytest.mark.parametrize(
    "first",
    [
        {"seconds": 0},
        {"mode": CacheMode.OFF},
        {"sampling": Sampling(temperature=0.7)},
        {"tools": {"vector_search": fails(DependencyFailed("It is away.", dependency="retrieval"))}},
        {"tools": {"vector_search": finds_nothing, "sql_query": finds_nothing}},
        {"steps": [ASKED[0], Turn("I do not have enough information to answer that.")]},
        {"steps": [Turn(calls=[call("x", "no_such_tool")]), *ASKED]},
        {"max_iterations": 1},
    ],
    ids=lambda first: next(iter(first)),
)
async def test_what_did_not_go_well_is_not_kept(world, first):
    await world.ask(*first.pop("steps", ASKED), **first)
    assert not [key for key in world.store.entries if key.tool == "model.first_calls"]


async def test_a_refreshed_answer_renews_what_is_kept(world):
    await world.ask(*ASKED)
    await world.ask(Turn(calls=[COUNT]), Turn("There are 47 [1]."), mode=CacheMode.REFRESH)
    events, _ = await world.ask(Turn("There are 47 [1]."))
    assert [one.tool for one in of(events, CallFinished)] == ["sql_query"]


async def test_calls_of_a_tool_that_is_no_longer_there_are_not_made(world):
    await world.ask(*ASKED)
    [key] = [key for key in world.store.entries if key.tool == "model.first_calls"]
    entry = world.store.entries[key]
    for damaged in (entry.value.replace(b"sql_query", b"no_such_to"), b"{}", entry.value.replace(b"[[", b"[")):
        world.store.entries[key] = type(entry)(key, damaged, 60)
        assert (await world.ask(*ASKED))[1] == 2


async def test_a_lost_cache_changes_nothing(world):
    await world.ask(*ASKED)
    world.store.lost = True
    events, turns = await world.ask(*ASKED)
    assert (turns, events[-1].finish) == (2, Finish.ANSWERED)
