"""The description for the model: form, budget, and nothing that ends a comment."""

from services.runtime.tenants import SqlSource
from services.sql_tool.allowlist import AllowedTable, of
from services.sql_tool.catalog import Catalog, Described
from services.sql_tool.schema import columns_without_values, describe

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


def test_tables_are_described_as_ddl_with_comments():
    description = describe(SOURCE, KNOWN, EXAMPLES, 2000)
    assert description.text == TEXT
    assert description.tables == ("public.providers", "public.contracts", "public.Big Table")


def test_examples_go_first_then_descriptions_then_tables():
    full = len(TEXT)
    no_examples = describe(SOURCE, KNOWN, EXAMPLES, (full - 1) // 4).text
    assert "Examples" not in no_examples
    assert "Companies" in no_examples
    bare = describe(SOURCE, KNOWN, EXAMPLES, (len(no_examples) - 1) // 4).text
    assert "Companies" not in bare
    assert "Unit: EUR" in bare
    fewer = describe(SOURCE, KNOWN, EXAMPLES, (len(bare) - 1) // 4)
    assert "more tables are not shown" in fewer.text
    assert len(fewer.tables) < 3
    assert len(fewer.text) <= len(bare)


def test_the_question_decides_which_tables_stay():
    bare = describe(SOURCE, KNOWN, {}, 66, "importe of contratos").tables
    assert "public.contracts" in bare
    assert "public.providers" not in bare


def test_only_text_columns_without_declared_values_are_sampled():
    assert columns_without_values(SOURCE, KNOWN) == [("public", "providers", "name"), ("public", "providers", "kind")]
