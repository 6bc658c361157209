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

DATA = Path(__file__).parents[1] / "data" / "sql"
CASES = [json.loads(line) for line in (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
TABLES = {
    "providers": ("id", "name", "region", "country"),
    "contracts": ("id", "provider", "provider_region", "amount", "year", "signed_on", "status", "clauses", "tags"),
    "payments": ("id", "contract_id", "amount", "paid_at", "method"),
}
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
""".strip().splitlines()
# Renaming the columns of a table is refused as a whole when one of them is withheld: stricter than need be.
STRICTER = {"SELECT x.a FROM contracts AS x(a, b)"}
STATEMENTS = SUBTLE + [
    case["sql"]
    for case in CASES
    if case["expect"] == "allow" and not case["params"] and set(case["allow"]["tables"]) <= set(TABLES)
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connections(postgres_server):
    """The superuser, and a role whose grants the tests change."""
    admin = await asyncpg.connect(postgres_server.dsn())
    await admin.execute("CREATE DATABASE sql_withheld")
    await admin.close()
    admin = await asyncpg.connect(postgres_server.dsn("sql_withheld"))
    await admin.execute((DATA / "schema.sql").read_text(encoding="utf-8"))
    await admin.execute("DROP FUNCTION public.initcap(int)")
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


COLUMNS = [((table, column),) for table, columns in TABLES.items() for column in columns]
WHOLE_TABLES = [tuple((table, column) for column in columns) for table, columns in TABLES.items()]


@pytest.mark.parametrize(
    "withheld", [*COLUMNS, *WHOLE_TABLES], ids=lambda pairs: "-".join((pairs[0][0], *(p[1] for p in pairs)))
)
async def test_the_guard_agrees_with_the_databases_grants(withheld, connections):
    admin, reader = connections
    tables = without(withheld)
    for name in TABLES:
        await admin.execute(f"REVOKE ALL ON {name} FROM withheld")
    for table in tables:
        await admin.execute(f"GRANT SELECT ({', '.join(table.columns)}) ON {table.name} TO withheld")
    missed, refused = [], []
    for sql in STATEMENTS:
        approved = approves(sql, tables)
        permitted = await may_plan(reader, sql)
        if approved and not permitted:
            missed.append(sql)
        if permitted and not approved and sql not in STRICTER:
            refused.append(sql)
    assert not missed
    assert not refused


def approves(sql, tables):
    try:
        guard.check(sql, of(tables))
    except ServiceError:
        return False
    return True


async def may_plan(reader, sql):
    try:
        await reader.execute(f"EXPLAIN {sql}")
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True
