"""The demo tenants' databases on a real PostgreSQL: exact facts, and a reader that can do nothing else."""

import asyncio
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
import yaml

import demo
from demo import contracts, database, documents, tenants, web_fixture
from demo.world import generate, read_wording
from services.runtime.tenants import Tenant

QUESTIONS = yaml.safe_load((Path(demo.__file__).parent / "questions.yaml").read_text(encoding="utf-8"))
PASSWORD = "p'ss \\w:rd/@%"


@pytest.fixture
async def dsn(postgres_server):
    return (await database.load_database(postgres_server.dsn(), tenants.describe("demo"), PASSWORD)).dsn


@pytest.fixture
async def reader(dsn):
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


def renamed(tenant_id: str, name: str) -> Tenant:
    """The tenant under another name, for tests that change its database."""
    return tenants.describe(tenant_id).model_copy(update={"id": name})


@pytest.mark.parametrize("question", [q for q in QUESTIONS if "sql" in q], ids=lambda question: question["id"])
async def test_numbers_of_the_questions_are_those_of_the_database(reader, question):
    [row] = await reader.fetch(question["sql"])
    assert [value if isinstance(value, int) else str(value) for value in row] == question["row"]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_texts_of_the_questions_stand_in_documents_pages_and_conditions(question):
    found = {document.document_id: document for document in documents.of_tenant("demo")}
    for document_id, phrases in question.get("documents", {}).items():
        # Markdown is the source of every format; the formats' own tests compare the rest.
        text = _text(found[document_id])
        assert all(phrase in text for phrase in phrases)
    pages = {page.slug: page.text for page in web_fixture.read_pages()}
    for slug, phrases in question.get("pages", {}).items():
        assert all(phrase in pages[slug] for phrase in phrases)
    assert set(question.get("conditions", [])) <= set(read_wording()["conditions"])
    assert bool(question["tools"]) == bool(question["contains"])


async def test_rows_are_all_there_and_consistent(reader):
    counts = {table: await reader.fetchval(f"SELECT count(id) FROM {table}") for table in ("contracts", "payments")}
    assert counts["contracts"] == 320
    assert 850 <= counts["payments"] <= 1000
    odd = await reader.fetchval(
        "SELECT count(*) FROM (SELECT c.id FROM contracts c JOIN payments p ON p.contract_id = c.id "
        "GROUP BY c.id, c.amount HAVING sum(p.amount) <> c.amount) AS odd"
    )
    assert odd == 0


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO regions (code, name, name_es) VALUES ('XX', 'x', 'x')",
        "UPDATE contracts SET amount = 1",
        "DELETE FROM payments",
        "TRUNCATE payments",
        "DROP TABLE payments",
        "CREATE TABLE mine (a int)",
        "CREATE TEMP TABLE mine (a int)",
        "SELECT iban FROM bank_accounts",
        "SELECT tax_id FROM providers",
        "SELECT * FROM providers",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SET ROLE demo_owner",
        "CREATE ROLE another",
    ],
)
async def test_the_reader_can_only_read_what_is_listed(reader, statement):
    # Read-only is the role's default; what must hold is that rights alone refuse it.
    await reader.execute("SET default_transaction_read_only = off")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await reader.execute(statement)


async def test_the_reader_is_read_only_and_limited_in_time_by_default(reader):
    assert await reader.fetchval("SHOW default_transaction_read_only") == "on"
    assert await reader.fetchval("SHOW statement_timeout") == "30s"
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await reader.execute("CREATE TABLE mine (a int)")


async def test_loading_again_keeps_what_is_there_and_takes_a_new_password(postgres_server):
    admin, tenant = postgres_server.dsn(), renamed("other", "again")
    tables = database.tables_of("other")
    first = await database.load_database(admin, tenant, "one", tables)
    second = await database.load_database(admin, tenant, "two", tables)
    assert (first.fresh, second.fresh) == (True, False)
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(first.dsn)
    connection = await asyncpg.connect(second.dsn)
    assert await connection.fetchval("SELECT count(*) FROM orders") == 120
    await connection.close()


async def test_changed_data_replace_the_old_ones(postgres_server):
    admin, tenant = postgres_server.dsn(), renamed("tiny", "changed")
    tables = database.tables_of("tiny")
    await database.load_database(admin, tenant, "x", tables)
    fewer = replace(tables, rows={**tables.rows, "orders": tables.rows["orders"][:5]})
    loaded = await database.load_database(admin, tenant, "x", fewer)
    connection = await asyncpg.connect(loaded.dsn)
    assert loaded.fresh
    assert await connection.fetchval("SELECT count(*) FROM orders") == 5
    await connection.close()


async def test_a_column_that_leaves_the_tenants_file_is_shut(postgres_server):
    admin, tenant = postgres_server.dsn(), renamed("other", "narrowed")
    tables = database.tables_of("other")
    loaded = await database.load_database(admin, tenant, "x", tables)
    (source,) = tenant.sql
    customers = source.tables["customers"]
    narrow = customers.model_copy(update={"columns": {"id": customers.columns["id"]}})
    narrower = source.model_copy(update={"tables": {"customers": narrow}})
    await database.load_database(admin, tenant.model_copy(update={"sql": (narrower,)}), "x", tables)
    connection = await asyncpg.connect(loaded.dsn)
    assert await connection.fetchval("SELECT count(id) FROM customers") == 24
    for query in ("SELECT name FROM customers", "SELECT id FROM orders"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch(query)
    await connection.close()


async def test_a_load_that_fails_leaves_the_old_data(postgres_server):
    admin, tenant = postgres_server.dsn(), renamed("tiny", "broken")
    tables = database.tables_of("tiny")
    loaded = await database.load_database(admin, tenant, "x", tables)
    orphans = replace(tables, rows={"customers": [], "orders": tables.rows["orders"]})
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await database.load_database(admin, tenant, "x", orphans)
    connection = await asyncpg.connect(loaded.dsn)
    assert await connection.fetchval("SELECT count(*) FROM orders") == 20
    await connection.close()
    assert not (await database.load_database(admin, tenant, "x", tables)).fresh


async def test_loads_at_the_same_time_do_not_disturb_each_other(postgres_server):
    admin, tables = postgres_server.dsn(), database.tables_of("tiny")
    loads = [database.load_database(admin, renamed("tiny", "crowded"), "x", tables) for _ in range(3)]
    assert sorted(loaded.fresh for loaded in await asyncio.gather(*loads)) == [False, False, True]


async def test_a_foreign_database_of_the_same_name_is_left_alone(postgres_server):
    admin = await asyncpg.connect(postgres_server.dsn())
    await admin.execute("CREATE DATABASE taken")
    await admin.close()
    with pytest.raises(database.DatabaseTaken, match="rename or drop it"):
        await database.load_database(postgres_server.dsn(), renamed("tiny", "taken"), "x", database.tables_of("tiny"))


async def test_a_reader_cannot_enter_another_tenants_database(postgres_server, dsn):
    await database.load_database(postgres_server.dsn(), tenants.describe("other"), "x")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await asyncpg.connect(dsn.removesuffix("/demo") + "/other")


async def test_a_tenant_without_sql_has_nothing_to_load(postgres_server):
    with pytest.raises(ValueError, match="no `sql`"):
        await database.load_database(postgres_server.dsn(), Tenant(id="plain"), "x")


def _text(document: documents.DocumentFile) -> str:
    """The Markdown that the file was made from."""
    if document.collection == "contracts":
        return contracts.write(generate(), generate().contract(document.document_id))
    folder = Path(demo.__file__).parent / "texts" / "policies" / document.language
    return (folder / f"{document.document_id}.md").read_text(encoding="utf-8")
