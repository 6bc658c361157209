"""Approved foreign tools are tools like ours; all others are lost, by name and reason."""

import pytest

from services.orchestrator.external.remote import RemoteResult, RemoteTool
from services.orchestrator.external.toolmaking import ExternalTools
from services.orchestrator.results import Degraded, Reply
from services.orchestrator.tool_maker import ToolMaker, ToolTimeouts
from services.orchestrator.tools import Tool, for_specialist
from services.runtime.errors import DependencyFailed, InvalidField
from services.runtime.tenants import Tenant

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}
FIND = RemoteTool("find", "Finds customers.", SCHEMA, {"readOnlyHint": True})
ADD = RemoteTool("add.customer", "Adds one.", SCHEMA)


class Remote:
    """Two tools."""

    def __init__(self):
        self.listed = {one.name: one for one in (FIND, ADD)}
        self.called = []
        self.result = RemoteResult("Found.")
        self.down = False

    async def tools(self, tenant, server):
        if self.down:
            raise DependencyFailed("crm does not answer.")
        return self.listed

    async def call(self, tenant, server, tool, arguments):
        self.called.append((tenant, tool.name, arguments))
        return self.result


def acme(find=FIND.fingerprint, add=ADD.fingerprint, **fields):
    crm = {"name": "crm", "url": "http://crm/mcp", "tools": {"find": find, "add.customer": add}, "timeout_seconds": 7}
    return Tenant.model_validate({"id": "acme", "mcp": [crm], **fields})


async def made(remote, tenant):
    tools = ExternalTools(remote, ToolMaker(ToolTimeouts()))
    server = tenant.mcp[0]
    return await tools.of(tenant, server, [server.tool_name(name) for name in server.tools])


async def test_an_approved_tool_bears_its_servers_name_and_its_schema():
    tools = await made(Remote(), acme())
    assert list(tools) == ["crm__find", "crm__add_customer"]
    find, add = tools.values()
    assert find.spec.parameters == SCHEMA
    assert find.spec.description == "Finds customers.\n(A tool of the external server `crm`.)"
    assert (find.service, find.origin, find.kind, find.timeout_seconds) == ("mcp:crm", "crm", "external", 7)
    assert (find.writes, add.writes) == (False, True)


async def test_what_it_says_is_an_untrusted_reply_with_its_arguments():
    remote = Remote()
    find = (await made(remote, acme()))["crm__find"]
    reply = await find.call(find.form.read('{"query": "x", "a": null}'), 5)
    assert reply == Reply("crm__find", '{"query": "x"}', "Found.")
    assert remote.called == [("acme", "find", {"query": "x"})]


async def test_a_failure_is_told_in_one_short_line_that_names_who_says_it():
    remote = Remote()
    remote.result = RemoteResult("No\n\n such " + "customer " * 100, failed=True)
    find = (await made(remote, acme()))["crm__find"]
    with pytest.raises(InvalidField) as caught:
        await find.call({}, 5)
    assert caught.value.message.startswith("crm says: No such customer")
    assert len(caught.value.message) < 320
    assert "\n" not in caught.value.message


async def test_a_tool_that_changed_or_waits_for_approval_does_not_exist_for_the_model():
    tools = await made(Remote(), acme(find="0" * 64, add=""))
    assert tools == {
        "crm__find": Degraded("mcp:crm", "crm__find: it was changed since it was approved"),
        "crm__add_customer": Degraded("mcp:crm", "crm__add_customer: it was not approved yet"),
    }


async def test_a_tool_that_is_gone_and_a_server_that_is_down_are_told_apart():
    remote = Remote()
    del remote.listed["find"]
    gone = await made(remote, acme())
    assert gone["crm__find"] == Degraded("mcp:crm", "crm__find: its server offers it no more")
    assert isinstance(gone["crm__add_customer"], Tool)
    remote.down = True
    assert set((await made(remote, acme())).values()) == {Degraded("mcp:crm", "crm does not answer")}


async def test_nothing_is_remembered_unless_the_tenant_says_so():
    plain = await made(Remote(), acme())
    assert {one.cache_ttl_seconds for one in plain.values()} == {0}
    described = await made(Remote(), acme(tools={"crm__find": {"description": "Our own words."}}))
    assert described["crm__find"].cache_ttl_seconds == 0
    assert described["crm__find"].description.startswith("Our own words.")
    kept = await made(Remote(), acme(tools={"crm__find": {"cache_ttl_seconds": 60}}))
    assert [one.cache_ttl_seconds for one in kept.values()] == [60, 0]


async def test_results_of_another_version_of_a_tool_are_other_results():
    remote = Remote()
    before = (await made(remote, acme()))["crm__find"].key({})
    other = remote.listed["find"] = RemoteTool("find", "Finds all customers.", SCHEMA, {"readOnlyHint": True})
    after = (await made(remote, acme(find=other.fingerprint)))["crm__find"].key({})
    assert before != after


async def test_specialists_get_the_tools_of_their_kind():
    tools = await made(Remote(), acme())
    assert list(for_specialist(tools, "external")) == ["crm__find", "crm__add_customer"]
    assert for_specialist(tools, "") == tools
    assert for_specialist(tools, "documents") == {}
