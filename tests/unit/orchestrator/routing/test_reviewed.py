"""Whether a reviewed query answers a question to the letter."""

from datetime import date
from pathlib import Path

import pytest

from services.orchestrator.routing.reviewed import reviewed
from services.orchestrator.routing.slots import NotFilled
from services.orchestrator.routing.sql_roles import Comparison, comparisons
from services.runtime import tenants
from services.runtime.tenants import SqlSource, VerifiedQuery

TODAY = date(2026, 7, 15)
DEMO = tenants.load(Path(__file__).parents[4] / "demo" / "tenant_files")["demo"]
QUERIES = {
    name: reviewed(name, query, source) for source in DEMO.sql for name, query in source.verified_queries.items()
}
SIGNED, PAYMENTS = QUERIES["contracts_signed"], QUERIES["payments_by_status"]


def fits(query, question):
    try:
        return query.fit(question, TODAY)
    except NotFilled:
        return None


def test_its_own_examples_fit_with_their_arguments():
    for source in DEMO.sql:
        for name, query in source.verified_queries.items():
            for example in query.examples:
                found = fits(QUERIES[name], example.question)
                assert {key: str(value) for key, value in found.items()} == {
                    key: str(list(value) if isinstance(value, tuple) else value)
                    for key, value in example.arguments.items()
                }


@pytest.mark.parametrize(
    "question",
    [
        "How many maintenance contracts did we sign in 2025?",
        "Which contracts did we sign in 2025?",
        "Contracts signed in 2025",
        "What is the average value of the contracts signed in 2025?",
        "How many contracts did we sign in 2025 by region?",
        "How many contracts did we sign in 2025 per month?",
        "How many contracts did we not sign in 2025?",
        "¿Cuántos contratos firmamos en 2025 con proveedores de fuera de la UE?",
        "¿Cuántos contratos firmamos en 2025, excepto los de la UE?",
        "¿Cuántos contratos firmamos en 2025 con Iberdrola?",
        "¿Cuántos borradores de contratos hay en 2025?",
        "¿Cuántos firmamos en 2025?",
        "¿Cuántos contratos de al menos 100k€ firmamos en 2025?",
        "¿Cuántos proveedores tenemos?",
        "¿Cuál es el mayor importe total firmado en contratos en 2025?",
    ],
)
def test_a_question_that_says_more_or_something_else_does_not_fit(question):
    assert fits(SIGNED, question) is None


@pytest.mark.parametrize(
    "question",
    [
        "Which providers have late payments?",
        "Late payments by region",
        "How many late payments were there in May?",
        "¿Qué pagos están atrasados?",
    ],
)
def test_a_list_or_a_split_is_no_total(question):
    assert fits(PAYMENTS, question) is None


def test_politeness_does_not_matter():
    asked = "Hola, ¿me puedes decir por favor cuántos pagos están pendientes? Gracias"
    assert fits(PAYMENTS, asked) == {"status": "pending"}


def test_synonyms_of_tables_and_columns_count_as_said():
    assert fits(SIGNED, "¿Cuántos acuerdos firmamos con suministradores de la UE en 2024?")["regions"] == ["EU"]


def source(sql, **parameters):
    query = VerifiedQuery(
        description="Orders of a customer. NOT for drafts.",
        sql=sql,
        parameters=parameters,
        owner="sales",
        reviewed_on=date(2026, 1, 1),
    )
    tables = {"orders": {"description": "Orders (pedidos)", "columns": {"total": {"unit": "EUR"}, "placed_on": {}}}}
    return reviewed(
        "orders_listed", query, SqlSource(dsn_secret="x", tables=tables, verified_queries={"orders_listed": query})
    )


def test_a_query_that_lists_rows_answers_which_and_not_how_many():
    listed = source(
        "SELECT * FROM orders WHERE placed_on >= $1 AND placed_on < $2", first={"type": "date"}, until={"type": "date"}
    )
    assert fits(listed, "Which orders came in 2025?") is None  # `came` is not said
    assert fits(listed, "Which orders are there in 2025?") == {"first": "2025-01-01", "until": "2026-01-01"}
    assert fits(listed, "How many orders are there in 2025?") is None
    assert fits(listed, "Which drafts of orders are there in 2025?") is None


@pytest.mark.parametrize(
    ("sql", "roles"),
    [
        ("SELECT 1 FROM c WHERE c.day >= $1 AND c.day < $2", {1: Comparison("day", ">="), 2: Comparison("day", "<")}),
        ("SELECT 1 FROM c WHERE day BETWEEN $1 AND $2", {1: Comparison("day", ">="), 2: Comparison("day", "<=")}),
        ("SELECT 1 FROM c WHERE $1 < c.amount", {1: Comparison("amount", ">")}),
        ("SELECT 1 FROM c WHERE code = ANY($1) LIMIT $2", {1: Comparison("code", "="), 2: Comparison("", "limit")}),
        ("SELECT 1 FROM c WHERE a = $1 OR b = $1", {}),
        ("SELECT 1 FROM c WHERE lower(a) LIKE $1", {}),
        ("SELECT 1 FROM c WHERE a > $10 AND b < $1", {10: Comparison("a", ">"), 1: Comparison("b", "<")}),
    ],
)
def test_the_statement_tells_what_each_parameter_is_for(sql, roles):
    assert comparisons(sql) == roles


SHOP = tenants.load(Path(__file__).parents[3] / "data" / "routing" / "tenants")["shop"]


def of_the_shop(name):
    (made,) = (reviewed(name, one.verified_queries[name], one) for one in SHOP.sql)
    return made


def test_values_of_a_column_stand_for_themselves_where_the_parameter_names_none():
    assert fits(of_the_shop("orders_received"), "How many orders did we receive online in June 2026?") == {
        "first_day": "2026-06-01",
        "day_after": "2026-07-01",
        "channels": ["web"],
    }


def test_how_many_fits_a_sum_where_its_examples_ask_so():
    asked = 'How many units of the product "Oak chair 4" are in stock?'
    assert fits(of_the_shop("stock_of_product"), asked) == {"product": "Oak chair 4"}
    assert fits(source("SELECT sum(total) FROM orders"), "How many orders are there?") is None
