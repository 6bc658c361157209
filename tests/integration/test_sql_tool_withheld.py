"""Withholds one column or table at a time from statements that are fine, and compares the guard with the database.

The database's column grants are the independent second opinion: what a role without the grant cannot plan, the guard
must refuse (no bypass), and what it can plan, the guard must approve (no false refusal).
"""

import json
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from services.runtime.errors import ServiceError
from services.sql_tool import guard
from services.sql_tool.allowlist import AllowedTable, of
from tests.integration.sql_grammar import ODD_TABLE, TABLES, Statements

DATA = Path(__file__).parents[1] / "data" / "sql"
CASES = [json.loads(line) for line in (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
# Statements for the places where name resolution is subtle.
SUBTLE = """
SELECT id FROM contracts JOIN payments USING (id)
SELECT * FROM providers NATURAL JOIN (SELECT 'x' AS region) q
SELECT q.n FROM (SELECT count(*) AS n, year FROM contracts GROUP BY year) q ORDER BY q.year
SELECT year AS y FROM contracts GROUP BY y ORDER BY y
SELECT id AS year FROM contracts ORDER BY year
SELECT id AS year FROM contracts GROUP BY year, id
SELECT id AS tags FROM contracts GROUP BY tags, id
(SELECT id FROM contracts) ORDER BY id LIMIT 3
SELECT status FROM contracts UNION SELECT method FROM payments ORDER BY status
SELECT a.id FROM contracts a, LATERAL (SELECT a.amount + amount AS s FROM payments WHERE contract_id = a.id) x
SELECT id FROM providers p WHERE EXISTS (SELECT 1 FROM contracts WHERE provider = name)
SELECT id FROM providers p WHERE EXISTS (SELECT 1 FROM contracts WHERE provider = p.name AND country = 'DE')
SELECT max(date_trunc('month', signed_on)) FROM contracts
SELECT date_bin('7 days', paid_at, timestamptz '2023-01-01') FROM payments
SELECT extract(year FROM signed_on), year FROM contracts
SELECT sum(amount) OVER (PARTITION BY year ORDER BY signed_on) FROM contracts
SELECT rank() OVER w FROM contracts WINDOW w AS (PARTITION BY provider ORDER BY amount)
SELECT string_agg(provider, ',' ORDER BY signed_on) FILTER (WHERE status = 'active') FROM contracts
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM contracts
SELECT DISTINCT ON (provider) provider, amount FROM contracts ORDER BY provider, signed_on
WITH RECURSIVE r(n) AS (SELECT min(year) FROM contracts UNION ALL SELECT n + 1 FROM r WHERE n < 2024) SELECT n FROM r
WITH c AS (SELECT id, clauses AS x FROM contracts) SELECT x -> 'sla' FROM c
SELECT coalesce(clauses -> 'sla', '[]') FROM contracts
SELECT c.id FROM contracts c JOIN payments p ON p.contract_id = c.id AND p.method = c.status
SELECT CASE WHEN tags[1] = 't1' THEN amount ELSE 0 END FROM contracts
SELECT id FROM contracts WHERE (year, status) = (SELECT year, status FROM contracts WHERE id = 1)
SELECT (SELECT max(amount) FROM payments WHERE contract_id = contracts.id) FROM contracts
SELECT id FROM contracts WHERE id = ANY(ARRAY(SELECT contract_id FROM payments))
SELECT row_to_json(p) FROM providers p
SELECT count(p) FROM providers p
SELECT p FROM (SELECT name FROM providers) p
SELECT to_char(signed_on, 'YYYY') AS status, count(*) FROM contracts GROUP BY 1
SELECT amount FROM payments GROUP BY amount HAVING count(id) > 1
SELECT x.a FROM contracts AS x(a, b)
SELECT t.item FROM contracts, unnest(tags) AS t(item)
SELECT name FROM providers WHERE name IN (SELECT provider FROM contracts WHERE providers.region = provider_region)
SELECT id FROM contracts ORDER BY CASE WHEN status = 'active' THEN 0 ELSE 1 END, amount
SELECT grouping(year), year FROM contracts GROUP BY ROLLUP (year)
SELECT id, lag(amount) OVER (ORDER BY signed_on) FROM contracts LIMIT 3
SELECT (SELECT id FROM (SELECT * FROM providers JOIN payments USING (id)) q(x) LIMIT 1) FROM contracts
SELECT (SELECT amount FROM (SELECT * FROM payments NATURAL JOIN (SELECT 1 AS id) z) q(a, b, c) LIMIT 1) FROM contracts
SELECT (SELECT tags FROM unnest(to_tsvector('simple', 'a')) AS tags LIMIT 1) FROM contracts
SELECT (SELECT tags FROM unnest(to_tsvector('simple', 'a')) AS t(tags) LIMIT 1) FROM contracts
SELECT (SELECT value FROM jsonb_array_elements('[1]') AS year) FROM odd
SELECT (SELECT ordinality FROM unnest(ARRAY[1]) WITH ORDINALITY AS year(id)) FROM contracts
SELECT x.metric FROM contracts c, JSON_TABLE(c.clauses, '$' COLUMNS (metric text PATH '$.a')) AS x
SELECT JSON_OBJECT(name VALUE region, 'x' : country) FROM providers
SELECT JSON_VALUE(clauses, '$.a' RETURNING text DEFAULT 'x' ON EMPTY NULL ON ERROR) FROM contracts
SELECT JSON_EXISTS(clauses, '$ ? (@ > $x)' PASSING amount AS x) FROM contracts
SELECT ROW(year, tags) IS NULL, (year, id) < (SELECT 1, 2) FROM contracts
SELECT id FROM contracts WHERE year > ALL (ARRAY[id]) AND year = SOME (ARRAY[id])
SELECT name COLLATE "C" FROM providers ORDER BY region COLLATE "C"
SELECT t.* FROM contracts c, ROWS FROM (unnest(c.tags), generate_series(1, c.year - 2019)) AS t(a, b)
SELECT date, "date", date '2020-01-01', date::date FROM odd WHERE date IS NULL
SELECT text, text 'x', cast(text AS text), text::text FROM odd ORDER BY odd.text
SELECT json, json IS JSON, json IS NOT JSON OBJECT FROM odd
SELECT count, count(count), count(*) FROM odd GROUP BY count HAVING count(first) > 0 ORDER BY odd.count
SELECT row, ROW(row), row IS NULL FROM odd
SELECT mode, mode() WITHIN GROUP (ORDER BY key) FROM odd GROUP BY mode
SELECT time, time '10:00', time::text FROM odd FETCH FIRST 2 ROWS ONLY
SELECT "Größe", Größe FROM (SELECT "Größe", "Größe" AS Größe FROM odd) x
SELECT value AS x, key AS value FROM odd ORDER BY value
SELECT first FROM odd ORDER BY id NULLS FIRST
SELECT q FROM odd AS q
SELECT q.q FROM odd AS q
SELECT odd FROM odd
SELECT odd.count FROM odd
SELECT x.count FROM (SELECT id, count FROM odd) x ORDER BY x
SELECT id FROM contracts c WHERE (SELECT c.id = id FROM payments p WHERE p.id = 1)
WITH contracts AS (SELECT id, name AS year FROM providers) SELECT year FROM contracts
WITH RECURSIVE t AS (SELECT id, id AS up FROM payments WHERE id < 3 UNION ALL SELECT t.id + 100, t.id FROM t WHERE t.id < 9) SEARCH DEPTH FIRST BY id SET year SELECT year, up FROM t
WITH RECURSIVE t AS (SELECT id FROM payments UNION ALL SELECT t.id + 100 FROM t WHERE t.id < 9) CYCLE id SET year USING tags SELECT year, tags FROM t
SELECT (WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < year - 2019) SEARCH DEPTH FIRST BY n SET tags SELECT max(n) FROM t WHERE tags IS NOT NULL) FROM contracts
""".strip().splitlines()  # noqa: E501
# Renaming the columns of a table is refused as a whole when one of them is withheld: stricter than need be.
STRICTER = {"SELECT x.a FROM contracts AS x(a, b)"}
STATEMENTS = SUBTLE + [
    case["sql"]
    for case in CASES
    if case["expect"] == "allow" and not case["params"] and set(case["allow"]["tables"]) <= set(TABLES)
]
WITHHELD = [((table, column),) for table, columns in TABLES.items() for column in columns]
WITHHELD += [tuple((table, column) for column in columns) for table, columns in TABLES.items()]
# One call of the role under test for hundreds of statements: 'yes', 'no', or another error's code.
VERDICTS = """
    CREATE FUNCTION verdicts(statements text[]) RETURNS text[] LANGUAGE plpgsql AS $$
    DECLARE
        one text;
        found text[] := '{}';
    BEGIN
        FOREACH one IN ARRAY statements LOOP
            BEGIN
                EXECUTE 'EXPLAIN ' || one;
                found := found || 'yes'::text;
            EXCEPTION
                WHEN insufficient_privilege THEN found := found || 'no'::text;
                WHEN OTHERS THEN found := found || SQLSTATE;
            END;
        END LOOP;
        RETURN found;
    END $$
"""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connections(postgres_server):
    """The superuser, and a role whose grants the tests change."""
    admin = await asyncpg.connect(postgres_server.dsn())
    await admin.execute("DROP DATABASE IF EXISTS sql_withheld")
    await admin.execute("CREATE DATABASE sql_withheld")
    await admin.close()
    admin = await asyncpg.connect(postgres_server.dsn("sql_withheld"))
    await admin.execute((DATA / "schema.sql").read_text(encoding="utf-8"))
    await admin.execute("DROP FUNCTION public.initcap(int)")
    await admin.execute(ODD_TABLE)
    await admin.execute(VERDICTS)
    await admin.execute("CREATE ROLE withheld LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA public TO withheld")
    reader = await asyncpg.connect(postgres_server.dsn("sql_withheld", "withheld", "x"))
    yield admin, reader
    await reader.close()
    await admin.close()


def without(withheld):
    """What may be read when the given (table, column) pairs may not."""
    tables = []
    for name, columns in TABLES.items():
        kept = tuple(column for column in columns if (name, column) not in withheld)
        if kept:
            tables.append(AllowedTable("public", name, kept, frozenset(columns) - set(kept)))
    return tables


def approves(sql, tables):
    try:
        guard.check(sql, of(tables))
    except ServiceError:
        return False
    return True


async def compare(connections, statements, withheld_parts):
    """How many verdicts were compared, what the guard missed, and what it refused without need."""
    admin, reader = connections
    checked, missed, refused = 0, [], []
    for withheld in withheld_parts:
        tables = without(withheld)
        for name in TABLES:
            await admin.execute(f"REVOKE ALL ON {name} FROM withheld")
        for table in tables:
            columns = ", ".join(f'"{column}"' for column in table.columns)
            await admin.execute(f"GRANT SELECT ({columns}) ON {table.name} TO withheld")
        concerned = [sql for sql in statements if withheld[0][0] in sql]
        verdicts = await reader.fetchval("SELECT verdicts($1)", concerned)
        assert set(verdicts) <= {"yes", "no"}
        for sql, verdict in zip(concerned, verdicts, strict=True):
            approved = approves(sql, tables)
            checked += 1
            if approved and verdict == "no":
                missed.append((withheld, sql))
            if not approved and verdict == "yes" and sql not in STRICTER:
                refused.append((withheld, sql))
    return checked, missed, refused


async def valid(connections, statements):
    """The statements that PostgreSQL plans and the guard approves when nothing is withheld."""
    verdicts = await connections[0].fetchval("SELECT verdicts($1)", statements)
    everything = without(())
    planned = [sql for sql, verdict in zip(statements, verdicts, strict=True) if verdict == "yes"]
    return [sql for sql in planned if approves(sql, everything)], planned


async def test_every_subtle_statement_is_valid_and_approved(connections):
    approved, planned = await valid(connections, STATEMENTS)
    assert planned == STATEMENTS
    assert approved == planned


async def test_the_guard_agrees_with_the_databases_grants(connections):
    checked, missed, refused = await compare(connections, STATEMENTS, WITHHELD)
    assert checked > 1000
    assert not missed
    assert not refused


@pytest.mark.slow
async def test_the_guard_agrees_with_the_databases_grants_on_made_statements(connections):
    statements = Statements(seed=0)
    approved, _ = await valid(connections, [statements.statement() for _ in range(200)])
    checked, missed, refused = await compare(connections, approved, WITHHELD)
    assert checked > 300
    assert not missed
    assert not refused


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_guard_agrees_with_the_databases_grants_on_thousands_of_made_statements(seed, connections, capsys):
    statements = Statements(seed)
    approved, planned = await valid(connections, [statements.statement() for _ in range(1300)])
    checked, missed, refused = await compare(connections, approved, WITHHELD)
    with capsys.disabled():
        shown = f"{len(missed)} missed, {len(refused)} over-refused; {len(approved)} of {len(planned)} approved whole"
        print(f"\nseed {seed}: {checked} verdicts compared, {shown}")
    assert checked > 5000
    assert not missed
    assert not refused
