"""The CREATE TABLE text of a tool description."""

from hypothesis import given
from hypothesis import strategies as st

from services.understudy.schema_reader import read_schema

TEXT = """Runs one SELECT over these tables:
CREATE TABLE orders ( -- Orders of customers (pedidos)
  id integer PRIMARY KEY, -- Number
  total numeric(12,2), -- Total (importe). Unit: EUR
  placed_at timestamp with time zone NOT NULL, -- When it was placed
  customer_id integer REFERENCES customers (id), -- Customer (cliente)
  state text, -- State. Values: 'open' = open; abierto, pendiente; 'it''s done' = closed. Examples: 'x'
  channel text -- Where it came from. Examples: 'web', 'shop'
);
CREATE TABLE public."user" (id int, name varchar(20), boss int, PRIMARY KEY (id),
  CONSTRAINT chief FOREIGN KEY (boss) REFERENCES "user" (id)); -- People
-- 2 more tables are not shown: a, b
Answer in (plain) words."""


def test_columns_are_read_with_type_unit_values_and_references():
    orders = read_schema(TEXT).tables["orders"]
    assert orders.description == "Orders of customers (pedidos)"
    assert orders.key.name == "id"
    assert orders.columns["total"].unit == "EUR"
    assert orders.columns["total"].is_number
    assert orders.columns["placed_at"].is_date
    assert orders.columns["customer_id"].references == ("customers", "id")
    assert orders.columns["state"].values == {"open": "open; abierto, pendiente", "it's done": "closed"}
    assert orders.columns["channel"].examples == ("web", "shop")
    assert orders.columns["channel"].description == "Where it came from."


def test_quoted_names_and_table_constraints_are_read():
    user = read_schema(TEXT).tables["user"]
    assert user.description == "People"
    assert list(user.columns) == ["id", "name", "boss"]
    assert user.key.name == "id"
    assert user.columns["boss"].references == ("user", "id")
    assert user.label.name == "name"


def test_a_text_without_tables_is_an_empty_schema():
    assert read_schema("Searches documents.").tables == {}


@given(st.text(max_size=80), st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_a_damaged_text_never_fails(noise, start, end):
    read_schema(TEXT[:start] + noise + TEXT[end:])
