"""The description for the model: form, budget, and nothing that ends a comment."""

from hypothesis import given
from hypothesis import strategies as st

from services.runtime.tenants import SqlSource
from services.sql_tool.allowlist import AllowedTable, of
from services.sql_tool.catalog import Catalog, Described
from services.sql_tool.schema import columns_without_values, tokens
from services.sql_tool.schema_text import SchemaText, describe_all

SOURCE = SqlSource.model_validate(
    {
        "dsn_secret": "x",
        "tables": {
            "providers": {
                "description": "Companies (proveedores)",
                "columns": {"id": {}, "name": {"description": "Name;\nDROP"}, "kind": {}},
            },
            "contracts": {
                "description": "Contracts (contratos)",
                "columns": {
                    "id": {},
                    "provider_id": {"references": "providers.id"},
                    "amount": {"unit": "EUR", "description": "Value (importe)."},
                    "status": {"values": {"active": "in force", "o'd": ""}},
                },
            },
            "Big Table": {"columns": {"a": {}, "b": {}}},
        },
    }
)
TABLES = [
    AllowedTable("public", "providers", ("id", "name", "kind")),
    AllowedTable("public", "contracts", ("id", "provider_id", "amount", "status"), frozenset({"note"})),
    AllowedTable("public", "Big Table", ("a", "b")),
]
KNOWN = Catalog(
    of(TABLES),
    {
        "public.providers": [
            Described("id", "integer", primary_key=True),
            Described("name", "text", is_text=True),
            Described("kind", "text", is_text=True),
        ],
        "public.contracts": [
            Described("id", "text", is_text=True, primary_key=True),
            Described("provider_id", "integer"),
            Described("amount", "numeric(12,2)"),
            Described("status", "text", is_text=True),
        ],
        "public.Big Table": [
            Described("a", "integer", references=("public", "secrets", "id")),
            Described("b", "integer"),
        ],
    },
    {"public.Big Table": ("a", "b")},
    frozenset(),
    "v",
)
EXAMPLES = {"public.providers.kind": ["law\nfirm", "O'B", "x" * 41]}
TEXT = """\
CREATE TABLE providers ( -- Companies (proveedores)
  id integer PRIMARY KEY,
  name text, -- Name; DROP
  kind text -- Examples: 'law firm', 'O''B'
);
CREATE TABLE contracts ( -- Contracts (contratos)
  id text PRIMARY KEY,
  provider_id integer REFERENCES providers (id),
  amount numeric(12,2), -- Value (importe). Unit: EUR
  status text -- Values: 'active' = in force; 'o''d'
);
CREATE TABLE "Big Table" (
  a integer,
  b integer,
  PRIMARY KEY (a, b)
);"""


def text(examples=EXAMPLES):
    return SchemaText(SOURCE, KNOWN, examples)


def test_tables_are_described_as_ddl_with_comments():
    description = text().describe(2000)
    assert description.text == TEXT
    assert description.tables == ("public.providers", "public.contracts", "public.Big Table")


def test_examples_go_first_then_descriptions_then_tables():
    no_examples = text().describe(tokens(TEXT) - 1).text
    assert "Examples" not in no_examples
    assert "Companies" in no_examples
    bare = text().describe(tokens(no_examples) - 1).text
    assert "Companies" not in bare
    assert "Unit: EUR" in bare
    fewer = text().describe(tokens(bare) - 1)
    assert "more tables are not shown" in fewer.text
    assert len(fewer.tables) < 3
    assert tokens(fewer.text) < tokens(bare)


def test_the_question_decides_which_tables_stay():
    bare = text({}).describe(120, "importe of contratos").tables
    assert "public.contracts" in bare
    assert "public.Big Table" not in bare


def test_a_question_about_nothing_there_is_as_none():
    assert text().describe(150, "horóscopo").text == text().describe(150).text


@given(st.integers(1, 300), st.sampled_from(["", "importe", "companies with a name", "state in force"]))
def test_the_budget_holds(budget, question):
    assert tokens(text().describe(budget, question).text) <= max(budget, tokens("-- 3 more tables are not shown"))


def test_several_sources_share_the_budget():
    other = SqlSource.model_validate(
        {"name": "away", "description": "Another.", "dsn_secret": "x", "tables": {"t": {"columns": {"a": {}}}}}
    )
    description = describe_all([text(), other], 2000)
    assert description.text.startswith("-- Source main.\nCREATE TABLE providers")
    assert description.text.endswith("-- Source away: Another. It does not answer at the moment.")
    assert tokens(describe_all([text(), text()], 200).text) <= 200


def test_only_text_columns_without_declared_values_are_sampled():
    assert columns_without_values(SOURCE, KNOWN) == [("public", "providers", "name"), ("public", "providers", "kind")]
