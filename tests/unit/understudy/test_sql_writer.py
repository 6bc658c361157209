"""Statements written from a question and a schema."""

from datetime import date

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from services.understudy.schema_reader import read_schema
from services.understudy.sql_writer import write_sql
from tests.unit.understudy.schemas import CONTRACTS, GEOGRAPHY

TODAY = date(2026, 7, 29)
SCHEMAS = {"contracts": read_schema(CONTRACTS), "geography": read_schema(GEOGRAPHY)}


def written(question, schema="contracts"):
    return write_sql(question, SCHEMAS[schema], TODAY)


QUESTIONS = [
    ("contracts", "¿Cuántos contratos de más de 100k€ firmamos en 2025 con proveedores de la UE?"),
    ("contracts", "importe total de pagos pendientes"),
    ("contracts", "average amount of contracts per region"),
    ("contracts", "contratos por categoría en 2025"),
    ("contracts", "¿Qué proveedor tiene más contratos?"),
    ("contracts", "Which region has the highest total amount?"),
    ("contracts", "top 5 contracts by amount"),
    ("contracts", "¿Cuántos proveedores firmaron contratos en 2025?"),
    ("contracts", "¿Cuántos contratos vigentes tenemos con Iberdrola?"),
    ("contracts", "status of AB-2020-17"),
    ("contracts", "número de contratos por año"),
    ("contracts", "contratos entre 50.000 y 100.000 €"),
    ("contracts", "Which providers have more than 5 contracts?"),
    ("contracts", "total pagado por proveedor en 2024"),
    ("contracts", "último contrato firmado"),
    ("contracts", "How many contracts with the provider 'Acme Cloud' are not active?"),
    ("geography", "How many rivers are in Texas?"),
    ("geography", "what is the largest state?"),
    ("geography", "which state has the largest population?"),
    ("geography", "¿Qué estado tiene más ríos?"),
    ("geography", "How many states have more than 3 rivers?"),
    ("geography", "how many cities have more than 100,000 inhabitants"),
    ("geography", "¿Cuál es la longitud media de los ríos?"),
    ("geography", "which states have a population over 10 million"),
]


@pytest.mark.parametrize(("schema", "question"), QUESTIONS)
def test_a_statement_is_one_select_over_the_schema_only(schema, question):
    statement = written(question, schema)
    tree = sqlglot.parse_one(statement.sql, read="postgres")
    assert isinstance(tree, exp.Select)
    tables = SCHEMAS[schema].tables
    aliases = {table.alias: table.name for table in tree.find_all(exp.Table)}
    assert set(aliases.values()) <= set(tables)
    assert all(column.name in tables[aliases[column.table]].columns for column in tree.find_all(exp.Column))
    marks = sorted({int(str(mark.this)) for mark in tree.find_all(exp.Parameter)})
    assert marks == list(range(1, len(statement.params) + 1))


@pytest.mark.parametrize(
    "question",
    [
        "How many contracts above 100k€ did we sign in 2025 with EU providers",
        "¿Cuántos contratos de más de 100k€ firmamos en 2025 con proveedores de la UE, y por qué importe total?",
        "¿Cuántos contratos de más de cien mil euros firmamos en 2025 con proveedores de la Unión Europea?",
    ],
)
def test_count_sum_threshold_year_and_region_come_together(question):
    statement = written(question)
    assert statement.sql == (
        "SELECT count(*) AS contracts_count, sum(c.amount) AS total_amount_eur FROM contracts AS c "
        "JOIN providers AS pr ON pr.id = c.provider_id JOIN regions AS r ON r.code = pr.region_code "
        "WHERE c.amount > $1 AND c.signed_on >= $2 AND c.signed_on < $3 AND r.code = $4"
    )
    assert statement.params == [100_000, "2025-01-01", "2026-01-01", "EU"]


@pytest.mark.parametrize(
    ("question", "parts", "params"),
    [
        (
            "how many payments in March?",
            ["count(*)", "FROM payments", "pa.paid_on >= $1"],
            ["2026-03-01", "2026-04-01"],
        ),
        ("importe total de pagos pendientes", ["sum(pa.amount)", "pa.status = $1"], ["pending"]),
        ("average amount of contracts per region", ["r.name AS region_name", "avg(c.amount)", "GROUP BY 1"], []),
        ("¿Qué proveedor tiene más contratos?", ["pr.name", "count(*)", "ORDER BY 2 DESC LIMIT 1"], []),
        ("top 5 contracts by amount", ["ORDER BY c.amount DESC", "LIMIT 5"], []),
        ("los 3 contratos de mayor importe", ["ORDER BY c.amount DESC", "LIMIT 3"], []),
        ("¿Cuál es el importe máximo de un contrato?", ["SELECT max(c.amount) AS max_amount_eur"], []),
        ("What is the largest contract?", ["SELECT c.id, c.title", "ORDER BY c.amount DESC", "LIMIT 1"], []),
        ("último contrato firmado", ["ORDER BY c.signed_on DESC", "LIMIT 1"], []),
        ("how many contracts are not active?", ["c.status <> $1"], ["active"]),
        ("contratos de servicios o suministros: ¿cuántos?", ["c.category IN ($1, $2)"], None),
        ("pagos del contrato AB-2020-17", ["FROM payments", "c.id = $1"], ["AB-2020-17"]),
        ("cuántos proveedores hay en España", ["FROM providers", "pr.country = $1"], ["ES"]),
        ("número de contratos por año", ["to_char(c.signed_on, 'YYYY') AS year", "GROUP BY 1 ORDER BY 1"], []),
        ("How many categories are there?", ["count(DISTINCT c.category)"], []),
        (
            "Which providers have more than 5 contracts?",
            ["FROM providers", "(SELECT count(*) FROM contracts AS c WHERE c.provider_id = pr.id) > $1"],
            [5],
        ),
        (
            "¿Cuántos proveedores firmaron contratos en 2025?",
            ["count(*)", "EXISTS (SELECT 1 FROM contracts"],
            ["2025-01-01", "2026-01-01"],
        ),
        ("How many contracts with the provider 'Acme Cloud'?", ["pr.name = $1"], ["Acme Cloud"]),
        ("¿Cuántos contratos tenemos con Iberdrola?", ["pr.name ILIKE $1"], ["%Iberdrola%"]),
        (
            "Which is the largest contract that we signed in 2025, and who is the provider?",
            ["pr.name AS provider_name", "LIMIT 1"],
            ["2025-01-01", "2026-01-01"],
        ),
    ],
)
def test_what_is_asked_becomes_sql(question, parts, params):
    statement = written(question)
    assert [part for part in parts if part not in statement.sql] == []
    assert params is None or statement.params == params


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("¿Qué estado tiene más ríos?", ["s.state_name, count(*)", "FROM river", "LIMIT 1"]),
        ("which state has the largest population?", ["SELECT s.state_name, s.population FROM state", "LIMIT 1"]),
        ("¿cuántos habitantes hay en total?", ["sum(", "population"]),
        ("¿Cuál es la población de Texas?", ["s.population FROM state", "s.state_name ILIKE $1"]),
        ("longest river", ["ORDER BY r.length DESC", "LIMIT 1"]),
    ],
)
def test_another_schema_is_read_as_well(question, parts):
    statement = written(question, "geography")
    assert [part for part in parts if part not in statement.sql] == []


@pytest.mark.parametrize(
    ("schema", "question"),
    [
        ("contracts", "how many rivers are there"),
        ("contracts", "weather in Madrid"),
        ("geography", "how many states were founded in March 1850"),
        ("contracts", "how many providers above 20 %"),
    ],
)
def test_a_condition_without_a_column_gives_no_statement(schema, question):
    assert written(question, schema) is None


WORDS = """cuántos contratos proveedores más de 100k€ en 2025 por región total media top 5 entre y UE EU 'x' AB-1-2 not
active Madrid largest average sum per year how many with providers mayor que menos $1 {} ; -- DROP " \\""".split()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join), st.sampled_from(sorted(SCHEMAS)))
def test_whatever_is_asked_the_statement_parses_and_holds_no_value(question, schema):
    statement = written(question, schema)
    if statement is not None:
        assert len(sqlglot.parse(statement.sql, read="postgres")) == 1
        assert "DROP" not in statement.sql
        assert "Madrid" not in statement.sql


@settings(deadline=None)
@given(st.text(max_size=120))
def test_writing_never_fails(question):
    written(question)
