"""A corpus of statements without a database: lines, what the cases may read, verdicts, and what was expected."""

import json
from pathlib import Path

import pytest

from services.runtime.errors import InvalidField
from services.sql_tool import check, corpus, ddl

DATA = Path(__file__).parents[2] / "data" / "sql"


def line(sql, tables=("contracts",), **more):
    allow = {"tables": list(tables)} | ({"columns": more.pop("columns")} if "columns" in more else {})
    return json.dumps({"id": "a", "sql": sql, "allow": allow} | more)


def verdict(*given, **more):
    (found,) = check.check_lines([line(*given, **more)]).verdicts
    return found["verdict"], found["stage"], found["code"]


@pytest.mark.parametrize("schema", ["", (DATA / "schema.sql").read_text(encoding="utf-8")], ids=["open", "schema"])
def test_the_projects_own_corpus_is_judged_as_it_should_be(schema):
    lines = (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    checked = check.check_lines(lines, schema=schema)
    # That initcap is somebody's function, too, only the schema tells.
    assert list(checked.differing) == ([] if schema else ["R090: expected reject, not allow."])
    assert checked.expected == len(lines) == len(checked.verdicts)


def test_columns_that_nobody_told_are_open_but_rows_and_system_columns_are_not():
    assert verdict("SELECT c.x, y FROM contracts c JOIN (SELECT * FROM contracts) q ON q.z = c.z") == ("allow", "", "")
    assert verdict("SELECT c.to_jsonb FROM contracts c") == ("reject", "policy", "unknown_column")
    assert verdict("SELECT ctid FROM contracts") == ("reject", "policy", "unknown_column")
    assert verdict("SELECT token FROM secrets") == ("reject", "policy", "unknown_table")


def test_listed_columns_are_the_only_ones():
    columns = {"contracts": ["id"]}
    assert verdict("SELECT id FROM contracts", columns=columns) == ("allow", "", "")
    for sql in ("SELECT x FROM contracts", "SELECT * FROM contracts", "SELECT contracts FROM contracts"):
        assert verdict(sql, columns=columns) == ("reject", "policy", "unknown_column")


def test_parameters_are_counted():
    assert verdict("SELECT id FROM contracts WHERE id = $1", params=[1]) == ("allow", "", "")
    assert verdict("SELECT id FROM contracts WHERE id = $1") == ("reject", "policy", "wrong_parameters")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "needs `sql`"),
        ('{"sql": "SELECT 1", "allow": {"tables": [1]}}', "not a list of names"),
        ('{"sql": "SELECT 1", "allow": {"tables": ["a"], "columns": {"b": []}}}', "columns of tables that are not in"),
    ],
)
def test_a_wrong_line_is_named(wrong, said):
    with pytest.raises(InvalidField) as caught:
        check.check_lines(["", line("SELECT 1"), wrong])
    assert "Line 3" in caught.value.message
    assert said in caught.value.message


def test_what_only_a_database_can_tell_is_no_disagreement_without_one():
    late = [line("SELECT id FROM contracts", expect="reject", stage="cost")]
    cases = corpus.read_cases(late)
    verdicts = list(corpus.without_database(cases))
    assert corpus.disagreements(cases, verdicts, with_database=False) == []
    assert len(corpus.disagreements(cases, verdicts, with_database=True)) == 1


def test_a_refusal_at_a_later_stage_is_a_disagreement():
    cases = corpus.read_cases([line("SELECT x FROM secrets", expect="reject", stage="parse")])
    assert corpus.disagreements(cases, list(corpus.without_database(cases)), with_database=False)


def test_a_schemas_text_tells_columns_functions_and_operators():
    read = ddl.read(
        """
        CREATE TABLE a (id int PRIMARY KEY, "Ñ" text NOT NULL, CONSTRAINT c CHECK (id > 0));
        CREATE VIEW other.v AS SELECT id AS x, count(*) FROM a;
        CREATE OR REPLACE FUNCTION initcap(x int) RETURNS text LANGUAGE sql AS $$ SELECT 'a;b' $$;
        CREATE FUNCTION other.hidden(x int) RETURNS text LANGUAGE sql AS 'x';
        CREATE OPERATOR public.=== (LEFTARG = int, FUNCTION = f);
        DO $$ BEGIN NULL; END $$;
        """
    )
    assert read.columns == {"public.a": ("id", "Ñ"), "other.v": ("x", "count")}
    assert read.functions == {"initcap"}
    assert read.operators == {"==="}
