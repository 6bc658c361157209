"""The SQL that makes a reader role."""

from services.runtime.tenants import SqlSource
from services.sql_tool.grants import statements

SOURCE = SqlSource.model_validate(
    {
        "dsn_secret": "x",
        "tables": {"contracts": {"columns": {"id": {}, 'a"b': {}}}, "archive.old": {"columns": {"id": {}}}},
    }
)


def test_the_role_gets_the_listed_columns_and_nothing_else():
    made = statements(SOURCE, "reader", "sales")
    assert 'GRANT SELECT ("id", "a""b") ON "sales"."contracts" TO "reader"' in made
    assert 'GRANT SELECT ("id") ON "archive"."old" TO "reader"' in made
    granted = [statement for statement in made if statement.startswith("GRANT")]
    assert all(statement.startswith(("GRANT SELECT (", "GRANT USAGE ON SCHEMA")) for statement in granted)


def test_names_cannot_leave_their_quotes():
    made = " ".join(statements(SOURCE, "r'; DROP TABLE x; --\""))
    assert "rolname = 'r''; DROP TABLE x; --\"'" in made
    assert '"r\'; DROP TABLE x; --"""' in made
