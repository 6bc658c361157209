import hashlib

import pytest
import yaml

from services.orchestrator.documents import Collection, DocumentQuery
from services.orchestrator.model import Message, ScriptedModel, Turn, Usage
from services.orchestrator.query_transform import SearchPolicy, Transform
from services.orchestrator.results import Degraded, Pages, Passages, Rows
from services.orchestrator.toolbox import Schema, Toolbox, ToolTimeouts, default_descriptions
from services.orchestrator.tools import NAMES
from services.runtime.errors import DependencyFailed, InvalidField, NotFound, Unauthenticated
from services.runtime.tenants import TenantDirectory

SQL = {"dsn_secret": "dsn", "tables": {"contracts": {"columns": {"id": {}}}}}


class Company:
    """Documents, tables and web of one company, all at once."""

    def __init__(self):
        self.names = ["contracts", "policies"]
        self.counts = 1
        self.asked = []
        self.down = ()
        self.error = None

    def _ask(self, what):
        self.asked.append(what)
        if what in self.down:
            raise self.error or DependencyFailed(f"{what} does not answer.")

    async def collections(self, timeout_seconds):
        self._ask("collections")
        return [Collection(name, f"All {name}", self.counts) for name in self.names]

    async def schema(self, timeout_seconds):
        self._ask("schema")
        return Schema("CREATE TABLE contracts (...);", "s1")

    async def query(self, sql, params_json, timeout_seconds):
        self.asked.append((sql, params_json, timeout_seconds))
        return Rows(sql, params_json, (), ())


class Documents:
    """The documents of a company."""

    def __init__(self, company):
        self.collections = company.collections
        self.searches = company.asked

    async def search(self, query, timeout_seconds):
        self.searches.append(query)
        return Passages(())


class Web:
    """A web without pages."""

    async def search(self, query, timeout_seconds):
        return Pages(())


@pytest.fixture
def open_toolbox(tmp_path):
    def make(company, *, model=None, search=None, **tenant):
        key = {"id": "k", "sha256": hashlib.sha256(b"k").hexdigest()}
        (tmp_path / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "keys": [key], "sql": SQL} | tenant))
        directory = TenantDirectory(tmp_path)
        timeouts = ToolTimeouts(5, 8, 10)
        model = model or ScriptedModel([])
        return Toolbox(directory, Documents(company), company, Web(), model=model, timeouts=timeouts, search=search)

    return make


def test_every_tool_has_a_default_text_that_says_what_it_is_not_for():
    texts = default_descriptions()
    assert tuple(texts) == NAMES
    assert all("NOT for" in text and "Examples" in text for text in texts.values())


async def test_a_tenant_gets_its_tools_with_tables_and_collections(open_toolbox):
    toolset = await open_toolbox(Company()).open("acme")
    assert tuple(toolset.tools) == NAMES
    assert toolset.lost == {}
    search, sql, _ = toolset.tools.values()
    assert "- contracts: All contracts" in search.description
    assert search.spec.parameters["properties"]["collection"]["enum"] == ["contracts", "policies"]
    assert sql.description.endswith("CREATE TABLE contracts (...);")
    assert [tool.timeout_seconds for tool in toolset.tools.values()] == [5, 8, 10]


async def test_what_services_said_is_remembered(open_toolbox):
    company = Company()
    toolbox = open_toolbox(company)
    await toolbox.open("acme")
    await toolbox.open("acme")
    assert sorted(company.asked) == ["collections", "schema"]


@pytest.mark.parametrize(
    ("tenant", "names"),
    [
        ({"web": {"sovereign": True}}, ("vector_search", "sql_query")),
        ({"sql": None}, ("vector_search", "web_search")),
        ({"tools": {"vector_search": {"enabled": False}}}, ("sql_query", "web_search")),
    ],
)
async def test_what_a_tenant_does_not_have_does_not_exist(open_toolbox, tenant, names):
    toolset = await open_toolbox(Company(), **tenant).open("acme")
    assert tuple(toolset.tools) == names
    assert toolset.lost == {}


async def test_a_tenants_text_replaces_the_default_and_keeps_the_tables(open_toolbox):
    own = {"tools": {"sql_query": {"description": "Our figures.", "cache_ttl_seconds": 7}}}
    sql = (await open_toolbox(Company(), **own).open("acme")).tools["sql_query"]
    assert sql.description == "Our figures.\nCREATE TABLE contracts (...);"
    assert sql.cache_ttl_seconds == 7


async def test_a_service_that_does_not_answer_takes_only_its_tool_along(open_toolbox):
    company = Company()
    company.down = ("schema",)
    toolbox = open_toolbox(company)
    toolset = await toolbox.open("acme")
    assert tuple(toolset.tools) == ("vector_search", "web_search")
    assert toolset.lost == {"sql_query": Degraded("sql_tool", "schema does not answer")}
    await toolbox.open("acme")
    assert company.asked.count("schema") == 1  # not asked at every answer while it is down


async def test_a_tenant_without_tables_is_not_degraded(open_toolbox):
    company = Company()
    company.down, company.error = ("schema",), NotFound("No SQL source.")
    toolset = await open_toolbox(company).open("acme")
    assert "sql_query" not in toolset.tools
    assert toolset.lost == {}


async def test_a_service_that_is_too_old_takes_only_its_tool_along(open_toolbox):
    company = Company()
    company.down, company.error = ("collections",), NotFound("Not offered yet.", dependency="retrieval")
    assert tuple((await open_toolbox(company).open("acme")).lost) == ("vector_search",)


async def test_only_the_wanted_tools_are_made(open_toolbox):
    company = Company()
    toolset = await open_toolbox(company).open("acme", only=["web_search"])
    assert tuple(toolset.tools) == ("web_search",)
    assert company.asked == []


@pytest.mark.parametrize("wanted", ["calculator", "web_search"])
async def test_a_tool_that_there_is_not_cannot_be_wanted(open_toolbox, wanted):
    toolbox = open_toolbox(Company(), web={"sovereign": True})
    with pytest.raises(InvalidField, match="there are: vector_search, sql_query") as caught:
        await toolbox.open("acme", only=[wanted])
    assert caught.value.metadata["field"] == "options.tools"


async def test_wanted_collections_bound_every_search(open_toolbox):
    company = Company()
    tool = (await open_toolbox(company).open("acme", collections=["policies"])).tools["vector_search"]
    assert "contracts" not in tool.description.split("Collections:")[1]
    await tool.call(tool.arguments(query="x"), 5)
    assert company.asked[-1] == DocumentQuery("x", 5, ("policies",))


async def test_a_collection_made_a_moment_ago_is_found(open_toolbox):
    company = Company()
    toolbox = open_toolbox(company)
    await toolbox.open("acme")
    company.names.append("new")
    assert (await toolbox.open("acme", collections=["new"])).tools


async def test_a_collection_that_there_is_not_is_told(open_toolbox):
    with pytest.raises(NotFound, match="there are: contracts, policies"):
        await open_toolbox(Company()).open("acme", collections=["secret"])


async def test_an_unknown_tenant_is_nobody(open_toolbox):
    with pytest.raises(Unauthenticated):
        await open_toolbox(Company()).open("other")


async def test_parameters_reach_the_database_as_json(open_toolbox):
    company = Company()
    tool = (await open_toolbox(company).open("acme")).tools["sql_query"]
    await tool.call(tool.arguments(query="SELECT $1", params=["ñ", 1]), 3)
    assert company.asked[-1] == ("SELECT $1", '["ñ", 1]', 3)


async def test_the_cache_version_follows_texts_tables_documents_and_the_chosen_collections(open_toolbox):
    async def versions(company, collections=(), **tenant):
        toolset = await open_toolbox(company, **tenant).open("acme", collections=collections)
        return [toolset.tools[name].cache_version for name in ("vector_search", "sql_query")]

    first = await versions(Company())
    more = Company()
    more.counts = 2
    assert await versions(Company()) == first
    assert (await versions(more))[0] != first[0]
    assert (await versions(more))[1] == first[1]
    assert (await versions(Company(), ["policies"]))[0] != first[0]
    assert (await versions(Company(), tools={"sql_query": {"description": "Other."}}))[1] != first[1]


async def test_collections_are_chosen_by_their_descriptions_only_where_that_is_left_open(open_toolbox):
    async def routed(company, *, collections=(), search=None, **arguments):
        tool = (await open_toolbox(company, search=search).open("acme", collections=collections)).tools["vector_search"]
        await tool.call(tool.arguments(query="x", **arguments), 5)
        return company.asked[-1].route

    assert await routed(Company())
    assert not await routed(Company(), collection="policies")
    assert not await routed(Company(), collections=["contracts", "policies"])
    assert not await routed(Company(), search=SearchPolicy(route=False))
    single = Company()
    single.names = ["contracts"]
    assert not await routed(single)


async def test_the_cache_version_follows_transformation_and_labels(open_toolbox):
    toolbox = open_toolbox(Company())

    async def version(**options):
        return (await toolbox.open("acme", **options)).tools["vector_search"].cache_version

    plain = await version()
    assert await version(transform=Transform.NONE) == plain
    versions = {plain, await version(transform=Transform.HYDE), await version(transform=Transform.AUTO)}
    versions |= {await version(labels=["board"]), await version(labels=["board", "legal"])}
    assert len(versions) == 5
    assert await version(labels=["legal", "board"]) == await version(labels=["board", "legal"])


async def test_only_what_leans_on_the_conversation_is_remembered_with_it(open_toolbox):
    toolbox = open_toolbox(Company())
    first, second = [Message("user", "What of 2023?")], [Message("user", "And the fines?")]

    async def context(query, history):
        tool = (await toolbox.open("acme", history=history)).tools["vector_search"]
        return tool.cache_context(tool.arguments(query=query))

    assert await context("penalty for late delivery", first) == ""
    assert await context("and in 2024?", []) == ""
    assert await context("and in 2024?", first) != await context("and in 2024?", second)


async def test_a_transformed_search_gets_the_time_of_its_model_turns(open_toolbox):
    toolbox = open_toolbox(Company(), search=SearchPolicy(search_seconds=5, model_seconds=6))
    seconds = {}
    for transform in Transform:
        seconds[transform] = (await toolbox.open("acme", transform=transform)).tools["vector_search"].timeout_seconds
    assert (seconds[Transform.NONE], seconds[Transform.HYDE], seconds[Transform.MULTI_STEP]) == (5, 16, 27)
    history = [Message("user", "x")]
    assert (await toolbox.open("acme", history=history)).tools["vector_search"].timeout_seconds == 11


async def test_what_the_tools_own_model_turns_cost_is_counted(open_toolbox):
    reply = Turn('{"paraphrases": ["a fine"]}', usage=Usage(90, 12))
    toolset = await open_toolbox(Company(), model=ScriptedModel([reply])).open("acme", transform=Transform.MULTI_QUERY)
    tool = toolset.tools["vector_search"]
    await tool.call(tool.arguments(query="What is the penalty for being late?"), 5)
    assert (toolset.spent.turns, toolset.spent.usage) == (1, Usage(90, 12))
