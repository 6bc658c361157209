"""What a model gets to know of a wrong statement: a code, a place, a way to repair it, and never a hidden name."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.runtime.errors import NotPermitted, ServiceError
from services.runtime.tenants import SqlSource, Tenant
from services.sql_tool import codes
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import PostgresDatabase
from services.sql_tool.tool import Bounds, SqlTool
from tests.integration.sql_stack import make_database

TABLES = {
    "contracts": {
        "description": "Contracts (contratos)",
        "columns": {
            "id": {},
            "amount": {"description": "Value (importe, valor)"},
            "signed_on": {},
            "status": {},
            "provider_id": {},
            "tags": {},
            "terms": {},
        },
    },
    "providers": {"description": "Companies (proveedores)", "columns": {"id": {}, "name": {}, "country": {}}},
    "open_offers": {"columns": {"id": {}, "price": {"description": "Price (importe)"}}},
}
# Everything that is called hush… is hidden; tok-… is in rows that the view does not show.
SCHEMA = """
    CREATE TYPE hush_type AS ENUM ('x');
    CREATE TABLE providers (id int PRIMARY KEY, name text, country text, hush_rating int);
    CREATE TABLE contracts (
        id int PRIMARY KEY, amount numeric, signed_on date, status text, provider_id int REFERENCES providers (id),
        tags text[], terms jsonb, hush_amount numeric, amount_hush numeric, hush_kind hush_type,
        CONSTRAINT hush_check CHECK (amount > 0));
    CREATE TABLE hush_contracts (id int, amount numeric, token text);
    CREATE TABLE hush_offers (id int, price text, hush_public bool);
    CREATE VIEW open_offers AS SELECT id, price FROM hush_offers WHERE hush_public;
    CREATE FUNCTION hush_fn(x int) RETURNS int LANGUAGE sql AS 'SELECT 1 / (x - x)';
    INSERT INTO providers VALUES (1, 'One', 'ES', 5), (2, 'Two', 'FR', 6);
    INSERT INTO contracts
        SELECT g, g * 10, date '2025-01-01' + g, 'active', 1 + g % 2, '{a}', '{"a": "b"}', 7, 7, 'x'
        FROM generate_series(1, 20) g;
    INSERT INTO hush_contracts VALUES (1, 1, 'tok-alpha');
    INSERT INTO hush_offers VALUES (1, '12', true), (2, 'tok-beta', false);
    REVOKE ALL ON FUNCTION hush_fn FROM PUBLIC;
    ANALYZE;
"""


class OneTenant:
    """The only tenant there is."""

    def __init__(self, tenant):
        self._tenant = tenant

    def get(self, tenant_id):
        return self._tenant

    def all(self):
        return {"acme": self._tenant}


@pytest.fixture(scope="module")
def dsn(postgres_server):
    source = SqlSource.model_validate({"dsn_secret": "x", "tables": TABLES})
    make_database(postgres_server, "sql_errors", SCHEMA, ("errors_reader", source))
    return postgres_server.dsn("sql_errors", "errors_reader", "pass")


@pytest.fixture
def secrets(dsn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "acme-dsn").write_text(dsn)
    return folder


def ask(secrets, statements):
    """What the tool says of each (sql, params): an error, or None."""

    async def run():
        tenant = Tenant.model_validate({"id": "acme", "sql": {"dsn_secret": "acme-dsn", "tables": TABLES}})
        connections = Connections(secrets, Pooling(2))
        tool = SqlTool(OneTenant(tenant), PostgresDatabase(connections), Bounds())
        said = []
        try:
            for sql, params in statements:
                try:
                    await tool.query("acme", sql, json.dumps(params))
                except ServiceError as error:
                    said.append(error)
                else:
                    said.append(None)
        finally:
            await connections.close()
        return said

    return asyncio.run(run())


def everything(error):
    return " ".join((error.message, *error.metadata.values()))


@pytest.mark.parametrize(
    ("sql", "code", "at", "said"),
    [
        ("SELECT status, count(*) FROM contracts", "not_grouped", "status", "Add status to GROUP BY"),
        ("SELECT c.status, sum(c.amount) FROM contracts c", "not_grouped", "c.status", "max(c.status)"),
        ("SELECT id FROM contracts WHERE sum(amount) > 5", "misplaced_call", "sum", "Use HAVING"),
        ("SELECT id FROM contracts WHERE row_number() OVER () = 1", "misplaced_call", "row_number", "subquery"),
        ("SELECT id FROM contracts JOIN providers ON true", "ambiguous_name", "id", "contracts and providers have it"),
        ("SELECT id FROM contracts c, contracts c", None, None, None),
        ("SELECT id FROM contracts WHERE status = 5", "type_mismatch", "=", "Operator `=` does not take"),
        ("SELECT sum(status) FROM contracts", "type_mismatch", "sum", "(text)"),
        ("SELECT round(amount, 'x', 2) FROM contracts", "type_mismatch", "round", "Check their number and order"),
        ("SELECT CASE WHEN true THEN 1 ELSE status END FROM contracts", None, None, None),
        ("SELECT id FROM contracts UNION SELECT name FROM providers", "type_mismatch", None, "Cast to one type"),
        ("SELECT id FROM contracts UNION SELECT id, name FROM providers", "syntax", None, None),
        ("SELECT id FROM contracts WHERE amount", "type_mismatch", "amount", "(boolean, numeric)"),
        ("SELECT id FROM contracts WHERE amount = 'x'", "invalid_value", "'x'", "Cast the other side"),
        ("SELECT id FROM contracts WHERE signed_on = 'soon'", "invalid_value", "'soon'", "YYYY-MM-DD"),
        ("SELECT status::int FROM contracts", "invalid_value", None, "no value of the type"),
        ("SELECT amount / 0 FROM contracts", "division_by_zero", None, "nullif"),
        ("SELECT (id * 2000000000)::int FROM contracts", "out_of_range", None, "bigint"),
        ("SELECT sqrt(-amount) FROM contracts", "out_of_range", None, "x >= 0"),
        ("SELECT ln(0 * amount) FROM contracts", "out_of_range", None, "x > 0"),
        ("SELECT (SELECT id FROM contracts)", "several_rows", None, "LIMIT 1"),
        ("SELECT DISTINCT status FROM contracts ORDER BY amount", "invalid_reference", "amount", "SELECT list"),
        ("SELECT id FROM contracts ORDER BY 9", "invalid_reference", "9", "SELECT list"),
        ("SELECT id FROM contracts LIMIT -1", "invalid_value", None, "LIMIT is negative"),
        ("SELECT id FROM contracts WHERE status ~ '('", "invalid_value", None, "POSIX"),
        ("SELECT 'x'::jsonb FROM contracts", "invalid_value", "'x'", None),
        ("SELECT $1 FROM contracts", None, None, None),
        ("SELECT id FROM contracts WHERE (", "syntax", None, None),
        ("SELECT id FROM contracts WHERE id = = 1", "syntax", None, None),
        ("SELECT id, FROM contracts", None, None, None),
        ("SELECT amout FROM contracts", "unknown_column", "amout", "Did you mean `amount`?"),
        ("SELECT importe FROM contracts", "unknown_column", "importe", "`importe` may mean contracts.amount"),
        ("SELECT importe FROM open_offers", "unknown_column", "importe", "`importe` may mean open_offers.price"),
        ("SELECT country FROM contracts", "unknown_column", "country", "`country` is a column of providers"),
        ("SELECT c.country FROM contracts c", "unknown_column", "c.country", "JOIN providers ON contracts."),
        ("SELECT id FROM contratos", "unknown_table", "contratos", "may mean contracts"),
        ("SELECT id FROM contract", "unknown_table", "contract", "Did you mean `contracts`?"),
        ("SELECT summ(amount) FROM contracts", "unknown_function", "summ", "Did you mean `sum`?"),
        ("SELECT pg_sleep(9)", "unknown_function", "pg_sleep", None),
        ("DELETE FROM contracts", "not_permitted", None, None),
        (f"SELECT 1 FROM {', '.join(f'contracts {alias}' for alias in 'abcdefgh')}", "too_dear", None, None),
        ("SELECT amount FROM contracts WHERE id = $1", "wrong_parameters", None, "1 placeholder"),
    ],
)  # fmt: skip
def test_an_error_has_a_code_a_place_and_a_way_to_repair_it(secrets, sql, code, at, said):
    params = [1] if sql == "SELECT $1 FROM contracts" else []
    (error,) = ask(secrets, [(sql, params)])
    if code is None:  # PostgreSQL or the parser may take it; then there is nothing to say
        assert error is None or error.metadata["code"] in codes.CODES
        return
    assert error is not None
    assert error.metadata["code"] == code, everything(error)
    if at is not None:
        assert int(error.metadata["position"]) == sql.index(at) + 1, everything(error)
    if said is not None:
        assert said in everything(error)


HIDDEN = [
    "SELECT hush_amoun FROM contracts",
    "SELECT amount_hus FROM contracts",
    "SELECT c.amount_hus FROM contracts c",
    "SELECT token FROM contracts",
    "SELECT hush FROM contracts",
    "SELECT id FROM hush_contract",
    "SELECT * FROM contracts",
    "SELECT c FROM contracts c",
    "SELECT contracts::text FROM contracts",
    "SELECT to_jsonb(c) FROM contracts c",
    "SELECT id FROM contracts NATURAL JOIN providers",
    "SELECT price::int FROM open_offers",
    "SELECT id FROM open_offers WHERE price::int > 5",
    "SELECT id FROM open_offers WHERE 1 / (length(price) - 8) > 0",
    "SELECT price::date FROM open_offers",
    "SELECT id FROM open_offers WHERE price::jsonb IS NOT NULL",
    "SELECT hush_f(1)",
    "SELECT id FROM contracts WHERE terms = 'x'",
    "SELECT id FROM contracts ORDER BY hush_amnt",
    "SELECT id FROM contracts GROUP BY id, hush_amnt",
    "SELECT max(id) FROM contracts GROUP BY contracts",
    "SELECT x.id FROM contracts x JOIN providers USING (hush_ratin)",
    "SELECT 'x'::hush_typ",
    "SELECT id FROM contracts c WHERE c.status = ANY(c.tags, 1)",
]


def test_no_hidden_name_and_no_hidden_value_is_ever_told(secrets):
    for sql, error in zip(HIDDEN, ask(secrets, [(sql, []) for sql in HIDDEN]), strict=True):
        if error is not None:
            check_silence(sql, error)


def check_silence(sql, error):
    """The statement's own words may come back; others of what is hidden may not."""
    text = everything(error).lower()
    for word in ("hush_amount", "amount_hush", "hush_kind", "hush_type", "hush_rating", "hush_contracts", "hush_offers",
                 "hush_public", "hush_fn", "hush_check", "token", "tok-", "errors_reader"):  # fmt: skip
        assert word not in text or word in sql.lower(), f"{sql}\n{text}"


LEGITIMATE = [
    "SELECT status, count(*) n, sum(amount) FROM contracts WHERE signed_on > '2025-01-05' GROUP BY status ORDER BY n",
    "SELECT c.id, p.name FROM contracts c JOIN providers p ON p.id = c.provider_id WHERE p.country = 'ES' LIMIT 5",
    "WITH t AS (SELECT provider_id, amount FROM contracts) SELECT provider_id, max(amount) FROM t GROUP BY provider_id",
    "SELECT id, row_number() OVER (PARTITION BY status ORDER BY amount DESC) FROM contracts",
    "SELECT o.price FROM open_offers o WHERE o.id IN (SELECT id FROM contracts) AND length(o.price) > 1",
    "SELECT terms ->> 'a', tags[1], amount::text FROM contracts WHERE 'a' = ANY(tags)",
]
WORDS = (
    "id amount hush hush_x amount_hus tok price price::int contracts providers open_offers c p t * ( ) , . :: = + - "
    "'x' 5 NULL int date jsonb text sum max count SELECT FROM WHERE GROUP BY ORDER JOIN ON USING (id) AND NOT "
    "DISTINCT / || -> ->> contracts.* c.hush name::int FILTER OVER () [1] interval row_to_json to_jsonb CASE END"
).split(" ")


@st.composite
def mutated(draw):
    words = draw(st.sampled_from(LEGITIMATE)).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words) - 1))
        words[at : at + draw(st.integers(0, 1))] = draw(st.lists(st.sampled_from(WORDS), max_size=2))
        words = words or ["SELECT"]
    return " ".join(words)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(statements=st.lists(mutated(), min_size=20, max_size=20))
def test_mutated_statements_never_make_it_tell_what_is_hidden(secrets, statements):
    for sql, error in zip(statements, ask(secrets, [(sql, []) for sql in statements]), strict=True):
        if error is not None:
            check_silence(sql, error)
            assert error.metadata["code"] in codes.CODES
            if position := error.metadata.get("position"):
                assert 1 <= int(position) <= len(sql) + 1


def test_a_hidden_name_gets_the_same_answer_as_one_that_does_not_exist(secrets):
    for hidden, absent in (("hush_amount", "push_amount"), ("hush_rating", "push_rating"), ("xmin", "xyzw")):
        one, other = ask(secrets, [(f"SELECT {name} FROM contracts", []) for name in (hidden, absent)])
        assert isinstance(one, NotPermitted)
        assert everything(one).replace(hidden, "x") == everything(other).replace(absent, "x")
