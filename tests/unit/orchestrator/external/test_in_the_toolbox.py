"""Foreign tools beside ours: their place, and what the tenant's file and a request make of them."""

import pytest
import yaml

from services.orchestrator.arguments import Arguments, TypedForm
from services.orchestrator.external.remote import RemoteTool
from services.orchestrator.model import ScriptedModel
from services.orchestrator.results import Degraded, Pages, Passages, Reply
from services.orchestrator.tool_maker import ToolTimeouts
from services.orchestrator.toolbox import Toolbox
from services.orchestrator.tools import for_specialist
from services.runtime.errors import DependencyFailed, InvalidField, NotFound
from services.runtime.tenants import TenantDirectory

FIND = RemoteTool("find", "Finds.", {"type": "object"}, {"readOnlyHint": True})


class World:
    """Documents, a web and foreign servers; no database."""

    def __init__(self):
        self.asked = []
        self.down = ()

    async def collections(self, timeout_seconds):
        return []

    async def search(self, query, *given):
        return Pages(()) if given and not isinstance(given[0], int | float) else Passages(())

    async def schema(self, about, timeout_seconds):
        raise NotFound("There is no database.")

    async def tools(self, tenant, server):
        self.asked.append((tenant, server.name))
        if server.name in self.down:
            raise DependencyFailed(f"{server.name} does not answer.")
        return {"find": FIND}


class Sum(Arguments):
    """Arguments of the calculator in this test."""

    expression: str


def calculator(maker, tenant):
    async def call(arguments, seconds):
        return Reply("calculate", "{}", "2", trusted=True)

    return maker.make(tenant, "calculate", call, form=TypedForm(Sum), result=Reply, description="Calculates.")


@pytest.fixture
def toolbox(tmp_path):
    def make(world, *, calculates=False, **tenant):
        servers = [{"name": name, "url": f"http://{name}/mcp", "tools": {"find": FIND.fingerprint}} for name in "ba"]
        file = {"id": "acme", "mcp": servers, "web": {"sovereign": True}} | tenant
        (tmp_path / "acme.yaml").write_text(yaml.safe_dump(file))
        return Toolbox(
            TenantDirectory(tmp_path),
            world,
            world,
            world,
            model=ScriptedModel([]),
            timeouts=ToolTimeouts(),
            remote=world,
            calculator=calculator if calculates else None,
        )

    return make


async def test_they_come_last_in_the_order_of_their_names(toolbox):
    made = toolbox(World())
    assert list(made.names("acme")) == ["vector_search", "a__find", "b__find"]
    toolset = await made.open("acme")
    assert list(toolset.tools) == ["vector_search", "a__find", "b__find"]
    assert toolset.lost == {}


async def test_a_request_can_want_them_alone_and_only_their_server_is_asked(toolbox):
    world = World()
    toolset = await toolbox(world).open("acme", only=("b__find",))
    assert list(toolset.tools) == ["b__find"]
    assert world.asked == [("acme", "b")]
    with pytest.raises(InvalidField, match="there are: vector_search, a__find, b__find"):
        await toolbox(world).open("acme", only=("c__find",))


async def test_the_tenants_file_switches_single_tools_off(toolbox):
    toolset = await toolbox(World(), tools={"a__find": {"enabled": False}}).open("acme")
    assert list(toolset.tools) == ["vector_search", "b__find"]


async def test_one_server_that_is_down_takes_nothing_from_the_others(toolbox):
    world = World()
    world.down = ("a",)
    toolset = await toolbox(world).open("acme")
    assert list(toolset.tools) == ["vector_search", "b__find"]
    assert toolset.lost == {"a__find": Degraded("mcp:a", "a does not answer")}


async def test_the_calculator_is_there_where_there_is_one_and_the_tenant_wants_it(toolbox):
    assert "calculate" not in (await toolbox(World()).open("acme")).tools
    tools = (await toolbox(World(), calculates=True).open("acme")).tools
    assert list(tools) == ["vector_search", "calculate", "a__find", "b__find"]
    assert (tools["calculate"].kind, tools["calculate"].service) == ("calculate", "orchestrator")
    assert list(for_specialist(tools, "documents")) == ["vector_search", "calculate"]
    assert list(for_specialist(tools, "external")) == ["calculate", "a__find", "b__find"]
    assert for_specialist(tools, "sql") == {}
    off = toolbox(World(), calculates=True, tools={"calculate": {"enabled": False}})
    assert "calculate" not in (await off.open("acme")).tools
