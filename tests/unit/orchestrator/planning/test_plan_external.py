"""Foreign tools in plans: the planner knows of them, a step may use them, and the rules of flows still hold."""

import json
from dataclasses import replace

from services.orchestrator.arguments import Arguments, TypedForm
from services.orchestrator.dispatch import Dispatcher, ToolSet
from services.orchestrator.events import CallFinished, Finish, StepFinished, SuspicionAction
from services.orchestrator.events import Suspicion as SuspicionEvent
from services.orchestrator.model import ToolCall, Turn
from services.orchestrator.planning.step import specialists_of
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.results import Reply
from services.orchestrator.shield.tenant_shield import TenantShield
from services.orchestrator.shield.verdicts import Verdicts
from services.orchestrator.tools import Tool
from services.runtime.recognition.injections.detector import Detector
from services.runtime.tenants import GuardTools
from tests.unit.orchestrator.agent_world import of, passages, tool
from tests.unit.orchestrator.planning.plan_world import ENOUGH, QUESTION, Cast, follow, planned, plans, searching


class Name(Arguments):
    """Arguments of the foreign tools of this test."""

    name: str


async def a_customer(arguments, seconds):
    return Reply("crm__find", json.dumps({"name": arguments.name}), f"{arguments.name}: level gold")


async def finds_a_name(arguments, seconds):
    return passages("The provider is Zelkova Holdings.")


def foreign(name, about, *, writes=False):
    return Tool(name, "mcp:crm", about, TypedForm(Name), Reply, a_customer, 5, origin="crm", writes=writes)


FIND = foreign("crm__find", "Finds a customer by name. NOT for providers.\n(A tool of the external server `crm`.)")
UPDATE = foreign("crm__update", "Changes a customer.", writes=True)
SEARCH = tool("vector_search", finds_a_name)
TOOLS = {one.name: one for one in (SEARCH, FIND, UPDATE)}


def with_tools(tools):
    return Dispatcher(ToolSet(tools), ResultCache(MemoryStore()))


def asking(answer, name, tool_name="crm__find"):
    return [Turn(calls=[ToolCall("x", tool_name, json.dumps({"name": name}))]), Turn(answer)]


async def test_a_step_can_be_given_to_the_tools_of_other_systems():
    cast = Cast(
        plan=[planned(("a", "Which provider?", "documents"), ("b", "Which level has Acme?", "external"))],
        check=[ENOUGH],
        **{"Which provider?": searching("Zelkova [1]."), "Which level has Acme?": asking("Gold [2].", "Acme")},
    )
    events = await follow(cast, with_tools(TOOLS), question="Which provider do we have, and which level has Acme?")
    assert [one[2] for one in plans(events)[0]] == ["documents", "external"]
    assert cast.models["Which level has Acme?"].requests[0][1] == ["crm__find", "crm__update"]
    assert "other systems" in cast.models["Which level has Acme?"].requests[0][0][0].text
    assert {one.step_id: one.found for one in of(events, StepFinished)} == {"s1": True, "s2": True}
    assert events[-1].finish is Finish.ANSWERED


async def test_planner_and_checker_are_told_what_the_foreign_tools_are_for():
    cast = Cast(
        plan=[planned(("a", "A?", "documents"), ("b", "B?", "external"))],
        check=[ENOUGH],
        **{"A?": searching("[1]."), "B?": asking("[2].", "Acme")},
    )
    await follow(cast, with_tools(TOOLS))
    for name in ("plan", "check"):
        told = cast.models[name].requests[0][0][0].text
        assert "`crm__find` (Finds a customer by name)" in told
        assert "`crm__update` (may change something: Changes a customer)" in told
        assert "NOT for providers" not in told


def test_many_foreign_tools_with_long_descriptions_are_told_in_few_words():
    many = {f"crm__{n}": replace(FIND, name=f"crm__{n}", description="x" * 1_000) for n in range(40)}
    told = specialists_of(many)
    assert list(told) == ["external"]
    assert "and 24 more" in told["external"]
    assert len(told["external"]) < 4_000


def test_without_foreign_tools_nothing_is_said_of_them():
    assert "external" not in specialists_of({"vector_search": SEARCH})


async def test_what_a_step_has_read_does_not_go_into_a_tool_that_changes_something():
    cast = Cast(
        plan=[planned(("a", "Which provider?", "documents"), ("b", "Change it?", "external", "a"))],
        check=[ENOUGH],
        **{
            "Which provider?": searching("Zelkova Holdings [1]."),
            "Change it?": asking("Not done.", "Zelkova Holdings", "crm__update"),
        },
    )
    shield = TenantShield("acme", GuardTools(), TOOLS, QUESTION, (), Verdicts(Detector()))
    events = await follow(cast, with_tools(TOOLS), shield=shield)
    (update,) = [one for one in of(events, CallFinished) if one.tool == "crm__update"]
    assert not update.ok
    assert [one.action for one in of(events, SuspicionEvent)] == [SuspicionAction.CALL_REFUSED]
