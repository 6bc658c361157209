import hashlib
from dataclasses import replace

import pytest
import yaml

from services.orchestrator.documents import Collection, DocumentQuery
from services.orchestrator.model import Message, ScriptedModel, Turn, Usage
from services.orchestrator.query_transform import SearchPolicy, Transform
from services.orchestrator.results import Degraded, Pages, Passages, Rows
from services.orchestrator.sql_tools import Schema, VerifiedQuery
from services.orchestrator.tool_maker import ToolTimeouts, default_descriptions
from services.orchestrator.toolbox import Toolbox
from services.orchestrator.tools import NAMES
from services.runtime.errors import DependencyFailed, InvalidField, NotFound, Unauthenticated
from services.runtime.tenants import TenantDirectory

TABLES = {"contracts": {"columns": {"id": {}}}}
SQL = {"dsn_secret": "dsn", "tables": TABLES}
OURS = ("vector_search", "sql_query", "web_search")
REVIEWED = {"description": "d", "sql": "SELECT 1", "owner": "finance", "reviewed_on": "2025-01-01"}
WITH_QUERIES = SQL | {"verified_queries": {"contract_total": REVIEWED, "late_suppliers": REVIEWED}}
TOTAL = VerifiedQuery(
    "contract_total",
    "Total of contracts by year. NOT for single contracts.",
    {"type": "object", "properties": {"year": {"type": "integer"}}},
    (("How much did we sign in 2025?", '{"year": 2025}'),),
    "v1",
)


class Company:
    """Documents, tables and web of one company, all at once."""

    def __init__(self):
        self.names = ["contracts", "policies"]
        self.counts = 1
        self.asked = []
        self.down = ()
        self.error = None
        self.schemas = Schema("CREATE TABLE contracts (...);", "s1", ("public.contracts",))
        self.verified = []

    def _ask(self, what):
        self.asked.append(what)
        if what in self.down:
            raise self.error or DependencyFailed(f"{what} does not answer.")

    async def collections(self, timeout_seconds):
        self._ask("collections")
        return [Collection(name, f"All {name}", self.counts) for name in self.names]

    async def schema(self, about, timeout_seconds):
        self._ask("schema" + about)
        return self.schemas

    async def query(self, sql, params_json, source, timeout_seconds):
        self.asked.append((sql, params_json, source, timeout_seconds))
        return Rows(sql, params_json, (), (), tables=("public.contracts",), source=source or "main")

    async def verified_queries(self, timeout_seconds):
        self._ask("verified")
        return self.verified

    async def run_verified(self, name, arguments_json, timeout_seconds):
        self.asked.append((name, arguments_json, timeout_seconds))
        return Rows("SELECT $1", "[2025]", ("n",), ((1,),), tables=("public.contracts",), source="main")


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

    def __init__(self, company):
        self.asked = company.asked

    async def search(self, query, internal_terms, timeout_seconds):
        self.asked.append((query, internal_terms))
        return Pages(())


@pytest.fixture
def open_toolbox(tmp_path):
    def make(company, *, model=None, search=None, **tenant):
        key = {"id": "k", "sha256": hashlib.sha256(b"k").hexdigest()}
        (tmp_path / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "keys": [key], "sql": SQL} | tenant))
        directory = TenantDirectory(tmp_path)
        timeouts = ToolTimeouts(5, 8, 10)
        model = model or ScriptedModel([])
        return Toolbox(
            directory, Documents(company), company, Web(company), model=model, timeouts=timeouts, search=search
        )

    return make


def test_every_tool_has_a_default_text_that_says_what_it_is_not_for():
    texts = default_descriptions()
    assert tuple(texts) == NAMES
    assert all("NOT for" in text and "Examples" in text for text in texts.values())


async def test_a_tenant_gets_its_tools_with_tables_and_collections(open_toolbox):
    toolset = await open_toolbox(Company()).open("acme")
    assert tuple(toolset.tools) == OURS
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
        ({"sql": []}, ("vector_search", "web_search")),
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
    await tool.call(tool.form.type(query="x"), 5)
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
    await tool.call(tool.form.type(query="SELECT $1", params=["ñ", 1]), 3)
    assert company.asked[-1] == ("SELECT $1", '["ñ", 1]', "", 3)


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


async def test_the_question_chooses_the_tables_that_are_told_and_not_the_key(open_toolbox):
    toolbox = open_toolbox(Company())
    made = [(await toolbox.open("acme", question=one)).tools["sql_query"] for one in ("", "Who paid?", "What is due?")]
    assert len({one.key(one.form.type(query="SELECT 1")) for one in made}) == 1


@pytest.mark.parametrize(("replicas", "seconds"), [([], 300), (["replica-dsn"], 15)])
async def test_results_of_a_database_with_replicas_are_not_kept_for_long(open_toolbox, replicas, seconds):
    sql = SQL | {"replica_dsn_secrets": replicas}
    assert (await open_toolbox(Company(), sql=sql).open("acme")).tools["sql_query"].cache_ttl_seconds == seconds


async def test_collections_are_chosen_by_their_descriptions_only_where_that_is_left_open(open_toolbox):
    async def routed(company, *, collections=(), search=None, **arguments):
        tool = (await open_toolbox(company, search=search).open("acme", collections=collections)).tools["vector_search"]
        await tool.call(tool.form.type(query="x", **arguments), 5)
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
        return tool.cache_context(tool.form.type(query=query))

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
    await tool.call(tool.form.type(query="What is the penalty for being late?"), 5)
    assert (toolset.spent.turns, toolset.spent.usage) == (1, Usage(90, 12))


async def test_each_verified_query_is_a_tool_with_the_very_schema_of_its_service(open_toolbox):
    company = Company()
    company.verified = [TOTAL]
    toolset = await open_toolbox(company, sql=WITH_QUERIES).open("acme")
    assert tuple(toolset.tools) == (*OURS, "contract_total")
    tool = toolset.tools["contract_total"]
    assert tool.spec.parameters == TOTAL.schema
    assert tool.description.startswith("Total of contracts by year. NOT for single contracts.")
    assert 'Examples: {"year": 2025} (How much did we sign in 2025?)' in tool.description
    assert (tool.service, tool.kind, tool.timeout_seconds) == ("sql_tool", "verified_query", 8)
    found = await tool.call(tool.form.read('{"year": 2025}'), 3)
    assert company.asked[-1] == ("contract_total", '{"year": 2025}', 3)
    assert (found.statement, found.params_json) == ("SELECT $1", "[2025]")
    assert tool.cache_sources({}, found) == ["table:main/public.contracts"]


async def test_a_verified_query_with_a_defect_is_no_tool(open_toolbox):
    company = Company()
    company.verified = [TOTAL, replace(TOTAL, name="late_suppliers", defect="There is no table `suppliers`.")]
    toolset = await open_toolbox(company, sql=WITH_QUERIES).open("acme")
    assert tuple(toolset.tools) == (*OURS, "contract_total")
    assert toolset.lost == {}


async def test_a_tenants_file_can_describe_a_verified_query_anew_and_put_it_away(open_toolbox):
    company = Company()
    company.verified = [TOTAL, replace(TOTAL, name="late_suppliers")]
    own = {
        "contract_total": {"description": "Our total.", "cache_ttl_seconds": 7},
        "late_suppliers": {"enabled": False},
    }
    toolset = await open_toolbox(company, sql=WITH_QUERIES, tools=own).open("acme")
    assert tuple(toolset.tools) == (*OURS, "contract_total")
    tool = toolset.tools["contract_total"]
    assert tool.description.startswith("Our total.\n")
    assert tool.cache_ttl_seconds == 7


async def test_a_verified_query_can_be_wanted_by_its_name(open_toolbox):
    company = Company()
    company.verified = [TOTAL]
    toolbox = open_toolbox(company, sql=WITH_QUERIES)
    assert tuple((await toolbox.open("acme", only=["contract_total"])).tools) == ("contract_total",)
    assert company.asked == ["verified"]
    with pytest.raises(InvalidField, match="there are: vector_search, sql_query, web_search, contract_total, late_sup"):
        await toolbox.open("acme", only=["contract_sum"])


async def test_verified_queries_are_lost_with_their_service_by_name(open_toolbox):
    company = Company()
    company.down = ("verified",)
    toolset = await open_toolbox(company, sql=WITH_QUERIES).open("acme")
    assert tuple(toolset.lost) == ("contract_total", "late_suppliers")
    assert toolset.lost["contract_total"].service == "sql_tool"


async def test_the_cache_version_of_a_verified_query_is_its_own(open_toolbox):
    company = Company()
    company.verified = [TOTAL]
    first = (await open_toolbox(company, sql=WITH_QUERIES).open("acme")).tools["contract_total"].cache_version
    company.verified = [replace(TOTAL, version="v2")]
    assert (await open_toolbox(company, sql=WITH_QUERIES).open("acme")).tools["contract_total"].cache_version != first


async def test_the_model_chooses_a_database_only_where_there_are_several(open_toolbox):
    company = Company()
    single = (await open_toolbox(company).open("acme")).tools["sql_query"]
    assert "source" not in single.spec.parameters["properties"]
    company.schemas = replace(company.schemas, sources=("main", "archive"))
    several = (await open_toolbox(company).open("acme")).tools["sql_query"]
    assert several.spec.parameters["properties"]["source"]["enum"] == ["main", "archive"]
    await several.call(several.form.read('{"query": "SELECT 1", "source": "archive"}'), 3)
    assert company.asked[-1] == ("SELECT 1", "[]", "archive", 3)
    await several.call(several.form.read('{"query": "SELECT 1"}'), 3)
    assert company.asked[-1] == ("SELECT 1", "[]", "", 3)


async def test_the_question_chooses_the_tables_only_where_they_are_too_many(open_toolbox):
    company = Company()
    many = {name: {"columns": {"id": {}}} for name in ("contracts", "suppliers")}
    toolbox = open_toolbox(company, sql=SQL | {"tables": many})
    history = [Message("user", "Suppliers?"), Message("assistant", "Yes.")]
    await toolbox.open("acme", question="And in 2024?", history=history)
    assert [one for one in company.asked if one != "collections"] == ["schema", "schemaSuppliers?\nAnd in 2024?"]
    company.asked.clear()
    await toolbox.open("acme")
    await open_toolbox(company).open("acme", question="How many?")
    assert [one for one in company.asked if one != "collections"] == ["schema"]


async def test_how_tables_were_chosen_does_not_change_what_results_are_known_by(open_toolbox):
    company = Company()

    async def version(text):
        company.schemas = replace(company.schemas, text=text)
        return (await open_toolbox(company).open("acme")).tools["sql_query"].cache_version

    assert await version("CREATE TABLE a (...);") == await version("CREATE TABLE b (...);")


async def test_a_query_that_reads_a_database_is_remembered_with_its_tables(open_toolbox):
    tool = (await open_toolbox(Company()).open("acme")).tools["sql_query"]
    found = Rows("SELECT 1", "[]", (), (), tables=("public.contracts", "public.suppliers"), source="archive")
    assert tool.cache_sources(None, found) == ["table:archive/public.contracts", "table:archive/public.suppliers"]


async def test_a_search_is_remembered_with_the_collections_that_it_read(open_toolbox):
    toolbox = open_toolbox(Company())

    async def sources(*, collections=(), **arguments):
        tool = (await toolbox.open("acme", collections=collections)).tools["vector_search"]
        return tool.cache_sources(tool.form.type(query="x", **arguments), Passages(()))

    assert await sources() == ["collection:*", "collection:contracts", "collection:policies"]
    assert await sources(collection="policies") == ["collection:policies"]
    assert await sources(collections=["contracts"]) == ["collection:contracts"]


async def test_near_questions_serve_where_the_tenants_file_says_so(open_toolbox):
    own = {"vector_search": {"semantic_similarity": 0.95}}
    tools = (await open_toolbox(Company(), tools=own).open("acme")).tools
    keys = [tools[name].key(tools[name].form.read('{"query": "x"}')) for name in OURS]
    assert [(key.semantic_argument, key.min_similarity) for key in keys] == [("query", 0.95), ("", 0), ("query", 0)]


async def test_a_web_search_names_what_must_not_leave(open_toolbox):
    company = Company()
    history = [Message("assistant", "It is CT-2024-0001."), Message("user", "CT-2023-0002")]
    toolset = await open_toolbox(company).open("acme", history=history)
    toolset.internal.append(Rows("s", "[]", ("id",), (("CT-2025-0091",),)))
    tool = toolset.tools["web_search"]
    await tool.call(tool.form.read('{"query": "CT-2025-0091 CT-2024-0001 CT-2023-0002"}'), 3)
    assert set(company.asked[-1][1]) == {"CT-2025-0091", "CT-2024-0001"}
