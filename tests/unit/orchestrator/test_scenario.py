import pytest
from prometheus_client import REGISTRY

from services.orchestrator.model import ScriptedModel, Turn
from services.orchestrator.scenario import scenario_of
from tests.unit.orchestrator.agent_world import COUNT, SEARCH, call, collect, dispatcher, dispatcher_of, search

WEB = call("w", "web_search", query="copper")


@pytest.mark.parametrize(
    ("strategy", "turns", "kinds", "scenario"),
    [
        ("rag", 1, ["vector_search"], "rag"),
        ("router", 1, ["sql_query"], "router"),
        ("plan", 4, ["sql_query", "vector_search"], "plan"),
        ("react", 0, [], "direct"),
        ("react", 1, [], "direct"),
        ("react", 2, ["sql_query"], "one_iteration"),
        ("react", 3, ["sql_query", "calculate"], "two_iterations"),
        ("react", 4, ["verified_query"], "three_iterations"),
        ("react", 5, ["sql_query"], "more"),
        ("react", 3, ["sql_query", "external"], "external"),
        ("rag", 1, ["external", "web_search"], "web"),
    ],
)
def test_a_scenario_is_told_by_strategy_turns_and_tools(strategy, turns, kinds, scenario):
    assert scenario_of(strategy, turns, kinds) == scenario


def observed(scenario):
    return REGISTRY.get_sample_value("sabueso_orchestrator_answer_seconds_count", {"scenario": scenario}) or 0


async def test_each_answer_is_observed_once_under_its_scenario():
    before = observed("one_iteration")
    await collect(ScriptedModel([Turn(calls=[SEARCH, COUNT]), Turn("Done [1].")]))
    assert observed("one_iteration") == before + 1


async def test_an_answer_that_asked_the_web_is_one_with_the_web():
    before = observed("web")
    tools = dispatcher_of({"web_search": search})
    await collect(ScriptedModel([Turn(calls=[WEB]), Turn("Done [1].")]), tools)
    assert observed("web") == before + 1


async def test_a_call_that_was_not_made_does_not_make_it_one_with_the_web():
    before = observed("web")
    await collect(ScriptedModel([Turn(calls=[WEB]), Turn("Nobody knows.")]), dispatcher())
    assert observed("web") == before
