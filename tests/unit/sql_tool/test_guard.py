"""What the guard approves, what it refuses, and how it says so."""

import time
from pathlib import Path

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres

from services.runtime.errors import InvalidField, NotPermitted, ServiceError, SqlError
from services.sql_tool import guard, lexer, spelling, sqljson, vocabulary, words
from services.sql_tool.allowlist import AllowedTable, AllowList, of

CONTRACTS = AllowedTable(
    "public",
    "contracts",
    ("id", "amount", "status", "signed_on", "provider"),
    frozenset({"clauses", "tags", "year", "day", "date", "c"}),
)
PROVIDERS = AllowedTable("public", "providers", ("id", "name"))
PAYMENTS = AllowedTable("public", "payments", ("id", "paid_at", "contract_id"))
ALLOWED = of([CONTRACTS, PROVIDERS, PAYMENTS])
DATA = Path(__file__).parents[2] / "data" / "sql"


def statements(name):
    return [line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line and line[:2] != "--"]


@pytest.mark.parametrize("sql", statements("approved.sql"))
def test_a_statement_that_analysts_write_is_approved(sql):
    assert guard.check(sql, ALLOWED).sql == sql


@pytest.mark.parametrize("sql", statements("refused.sql"))
def test_a_statement_that_reaches_further_is_refused(sql):
    with pytest.raises((NotPermitted, SqlError)):
        guard.check(sql.replace("␍", "\r"), ALLOWED)


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT 1; SELECT 2", "statement"),
        ("DELETE FROM contracts", "statement"),
        ("WITH x AS (DELETE FROM contracts RETURNING id) SELECT id FROM x", "write"),
        ("SELECT id INTO stolen FROM contracts", "write"),
        ("SELECT id FROM contracts FOR UPDATE", "lock"),
        ("SELECT pg_sleep(1)", "function"),
        ("SELECT 'x'::regclass", "type"),
        ("SELECT token FROM secrets", "table"),
        ("SELECT clauses FROM contracts", "column"),
        ("SELECT * FROM contracts", "column"),
        ("SELECT id FROM contracts WHERE id = ?", "placeholder"),
        ("SELECT repeat('x', 100000)", "size"),
        ("SELECT " + "(" * 40 + "1" + ")" * 40, "nesting"),
        ("SELECT id\u00a0FROM contracts", "characters"),
        ("SELECT 1 OPERATOR(pg_catalog.+) 1", "operator"),
        ("SELECT id FROM contracts WHERE (contracts) IS JSON", "column"),
    ],
)
def test_a_refusal_names_its_rule(sql, rule):
    with pytest.raises(NotPermitted) as caught:
        guard.check(sql, ALLOWED)
    assert caught.value.metadata["rule"] == rule
    assert rule in guard.RULES


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT amout FROM contracts", "Did you mean `amount`?"),
        ("SELECT id FROM contract", "Did you mean `contracts`?"),
        ("SELECT c.staus FROM contracts c", "Did you mean `status`?"),
        ("SELECT * FROM contracts", "Name the columns: id, amount, status, signed_on, provider."),
        ("SELECT data_trunc('month', signed_on) FROM contracts", "Did you mean `date_trunc`?"),
    ],
)
def test_a_refusal_helps_to_repair_the_statement(sql, hint):
    with pytest.raises(NotPermitted) as caught:
        guard.check(sql, ALLOWED)
    assert caught.value.metadata["hint"].startswith(hint)


@pytest.mark.parametrize("sql", ["", "  \n", "SELECT '" + "x" * guard.MAX_SQL_BYTES + "'"])
def test_an_empty_or_long_text_is_a_wrong_field(sql):
    with pytest.raises(InvalidField) as caught:
        guard.check(sql, ALLOWED)
    assert caught.value.metadata["field"] == "sql"


def test_a_text_that_does_not_parse_says_where():
    with pytest.raises(SqlError) as caught:
        guard.check("SELECT id FROM contracts WHERE AND", ALLOWED)
    assert caught.value.metadata["sqlstate"] == "42601"
    assert int(caught.value.metadata["position"]) > 0


def test_placeholders_are_counted_and_have_no_gaps():
    assert guard.check("SELECT id FROM contracts WHERE id = $2 OR amount > $1 OR id = $2", ALLOWED).parameter_count == 2
    with pytest.raises(InvalidField):
        guard.check("SELECT id FROM contracts WHERE id = $2", ALLOWED)


def test_the_tables_that_are_read_are_named():
    sql = "WITH p AS (SELECT id FROM providers) SELECT c.id FROM contracts c JOIN p ON p.id = c.id"
    assert guard.check(sql, ALLOWED).tables == ("public.contracts", "public.providers")


def test_a_table_of_another_schema_is_found_by_its_full_name_only():
    allowed = of([AllowedTable("archive", "contracts", ("id",))])
    assert guard.check("SELECT id FROM archive.contracts", allowed).tables == ("archive.contracts",)
    with pytest.raises(NotPermitted):
        guard.check("SELECT id FROM contracts", allowed)


def test_a_function_or_operator_that_the_tenants_schema_redefines_is_refused_unless_qualified():
    allowed = AllowList("public", ALLOWED.tables, frozenset({"lower", "text", "in"}), frozenset({"===", "~~", "<="}))
    guard.check("SELECT pg_catalog.lower(name), id::text FROM providers WHERE id IN (1) AND id = 1", allowed)
    for sql in (
        "SELECT lower(name) FROM providers",
        'SELECT "lower"(name) FROM providers',
        "SELECT text(id) FROM providers",
        "SELECT 1 === 2",
        "SELECT name LIKE 'a' FROM providers",
        "SELECT id BETWEEN 1 AND 2 FROM providers",
    ):
        with pytest.raises((NotPermitted, SqlError)):
            guard.check(sql, allowed)


def test_long_flat_chains_are_no_nesting():
    assert guard.check("SELECT id FROM contracts WHERE " + " OR ".join(["id = 1"] * 1000), ALLOWED)


@pytest.mark.parametrize(
    "opening",
    """
    ARRAY[ | [ | numeric( | timestamp( | struct( | date( | interval( | ( | max(id ->  | union( | range( | null( | array(
    | time ROW( | ROW( | json_value( | JSON_OBJECT('a': | CASE WHEN ( | rows from ( | x IS JSON AND (
    """.split(" | "),
)
def test_deep_nesting_takes_no_time(opening):
    closing = "]" if opening[-1] == "[" else ")"
    started = time.thread_time()
    try:
        guard.check(f"SELECT {opening * 29}1{closing * 29} FROM contracts", ALLOWED)
    except ServiceError:
        pass
    assert time.thread_time() - started < 2


def test_every_bracket_that_the_parser_reads_in_several_ways_is_counted():
    parser = Postgres.parser_class
    types = {*parser.TYPE_TOKENS, *parser.NESTED_TYPE_TOKENS}
    assert not [word for word in words.PLAIN if Postgres().tokenize(word)[0].token_type in types]


def test_a_word_of_sql_that_names_a_hidden_column_is_fine_where_it_is_syntax():
    odd = AllowedTable("public", "odd", ("id",), frozenset({"date", "text", "first", "row", "time", "json", "by"}))
    for sql in (
        "SELECT date '2024-01-01', id::text, CAST(id AS text) FROM odd",
        "SELECT ROW(id), id IS JSON FROM odd GROUP BY id ORDER BY id NULLS FIRST FETCH FIRST 1 ROWS ONLY",
        "SELECT time '10:00', id::timestamp AT TIME ZONE 'UTC' FROM odd",
        "SELECT sum(id) OVER (PARTITION BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM odd",
    ):
        guard.check(sql, of([odd]))
    for sql in ("SELECT date FROM odd", "SELECT text FROM odd", "SELECT row FROM odd", "SELECT NOT json FROM odd"):
        with pytest.raises(NotPermitted):
            guard.check(sql, of([odd]))


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT id, name FROM providers)"
        + "".join(f", a{i} AS (SELECT * FROM a{i - 1 or ''} x, a{i - 1 or ''} y)" for i in range(1, 30))
        + " SELECT 1 FROM a29",
        "SELECT 1 " + "+-" * 7900 + "1",
        "SELECT (ARRAY[1])" + "[1]" * 4000,
        "SELECT 1" + " search cycle)" * 1100,
        "WITH a AS (SELECT "
        + ",".join(["1"] * 900)
        + ") SELECT 1 FROM a"
        + "".join(f" JOIN a a{i} ON true" for i in range(600)),
    ],
    ids=["columns", "operators", "subscripts", "brackets", "joins"],
)
def test_what_grows_faster_than_its_text_is_refused_at_once(sql):
    started = time.thread_time()
    with pytest.raises(ServiceError):
        guard.check(sql, ALLOWED)
    assert time.thread_time() - started < 2


def test_semicolons_before_the_statement_are_not_run():
    assert guard.check("; /* x */ ;SELECT id FROM contracts;", ALLOWED).sql == "  /* x */  SELECT id FROM contracts;"


def test_deep_unions_are_refused_without_a_crash():
    with pytest.raises(ServiceError):
        guard.check(" UNION ALL ".join(["SELECT 1"] * 900), ALLOWED)


FORMS = (
    "{}",
    "{}(1)",
    "{}(1, 2)",
    "{}(1, 2, 3)",
    "{}(1 AS int)",
    "{}(day FROM x)",
    "{}(1 PLACING 2 FROM 3)",
    "{}(x, NFC)",
)


def test_every_permitted_function_is_of_a_permitted_construct():
    known = vocabulary.FUNCTION_NODES | vocabulary.PLAIN_NODES
    known |= {exp.Var, exp.DataType, exp.Select, exp.Column, exp.Identifier}
    for name in vocabulary.FUNCTIONS - {"json_table", *sqljson.CALLS}:
        assert any(kinds <= known for kinds in constructs_of(name)), name


def constructs_of(name):
    for form in FORMS:
        try:
            tree = sqlglot.parse_one(f"SELECT {form.format(name)}", dialect="postgres")
        except sqlglot.ParseError:
            continue
        yield {type(node) for node in tree.walk()}


# Pieces of SQL in random order: most are nonsense, some are statements, none may get a caller further than reading.
PIECES = st.sampled_from(
    """SELECT FROM WHERE contracts providers secrets id name clauses token * , ( ) . ; $1 = 'a' "id" -- /* */ UNION ALL
    WITH x AS JOIN ON USING LATERAL ORDER BY GROUP LIMIT 1 count( pg_sleep( lower( set_config( :: text regclass INTO
    DELETE UPDATE INSERT FOR c -> ->> [ ] CASE WHEN THEN END VALUES TABLE ONLY public pg_catalog DISTINCT NATURAL
    $$ E' U&" \\ \n \r \x00 ? % && @> year EXTRACT( interval NULL IS NOT IN EXISTS(""".split(" ")
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=25).map(" ".join)))
def test_the_guard_answers_any_text_with_an_approval_or_a_named_error(text):
    try:
        approved = guard.check(text, ALLOWED)
    except ServiceError:
        return
    assert_only_reads(approved)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_mutated_statement_is_refused_or_only_reads(data):
    words = data.draw(st.sampled_from(statements("approved.sql"))).split(" ")
    for _ in range(data.draw(st.integers(1, 4))):
        words.insert(data.draw(st.integers(0, len(words))), data.draw(PIECES))
    try:
        approved = guard.check(" ".join(words), ALLOWED)
    except ServiceError:
        return
    assert_only_reads(approved)


def assert_only_reads(approved):
    assert set(approved.tables) <= {"public.contracts", "public.providers", "public.payments"}
    # As the guard's parser reads it: by itself it takes `$1,$2` for the beginning of a quoted text.
    text = spelling.for_parser(approved.sql, lexer.tokens(approved.sql)).text
    (tree,) = [tree for tree in sqlglot.parse(text, dialect="postgres") if tree]
    writes = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock, exp.Set)
    assert not [node for node in tree.walk() if isinstance(node, writes) and not isinstance(node, exp.Query)]
    calls = {lexer.fold(node.name, False) for node in tree.find_all(exp.Anonymous)}
    assert calls <= vocabulary.FUNCTIONS
