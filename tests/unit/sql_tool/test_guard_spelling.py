"""What the parser is shown in place of PostgreSQL's own spellings: names stay where they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import NotPermitted, SqlError
from services.sql_tool import lexer, spelling


def shown(sql):
    return spelling.for_parser(sql, lexer.tokens(sql))


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT a FROM t", "SELECT a FROM t"),
        ("x = SOME (a)", "x = any  (a)"),
        ("x > ALL (a)", "x > any (a)"),
        ("UNION ALL (SELECT 1)", "UNION ALL (SELECT 1)"),
        ("ROW(a, b)", "   (a, b)"),
        ("GROUP BY ALL a", "GROUP BY     a"),
        ("a AT LOCAL", "a         "),
        ("FROM ROWS FROM (f(a))", "FROM      ____ (f(a))"),
        ("a IS JSON", "a IS null"),
        ("a IS NOT JSON OBJECT WITH UNIQUE KEYS", "a IS NOT null                        "),
        ("NOT json", "NOT json"),
        ("AS row(a)", "AS row(a)"),
        ("x json(a)", "x json(a)"),
        ("WITH json(a) AS (SELECT 1)", "WITH json(a) AS (SELECT 1)"),
        ("JSON_VALUE(a RETURNING numeric((SELECT 1)))", "concat    (a RETURNING numeric((SELECT 1)))"),
        ("JSON_VALUE(a, '$' RETURNING numeric(10,2) NULL ON ERROR)", "concat    (a, '$'" + " " * 38 + ")"),
        ("JSON_OBJECT('a' : b, c VALUE d)", "concat     ('a' , b, c ,     d)"),
        ("JSON_OBJECT(a::text : b)", "concat     (a::text , b)"),
        ("JSON_EXISTS(a, '$' PASSING b AS c)", "concat     (a, '$' ,       b     )"),
        ("JSON_VALUE(a, '$' DEFAULT b ON EMPTY)", "concat    (a, '$' ,       b         )"),
        ("0x1F + 1_000 + .5", "31   + 1000  + 0 "),
    ],
)
def test_the_parser_is_shown_what_it_can_read(sql, text):
    assert shown(sql).text == text


@pytest.mark.parametrize(
    "sql",
    [
        "JSON_OBJECT(value : b)",
        "JSON_VALUE(error, '$')",
        "JSON_ARRAY(absent, passing, format)",
    ],
)
def test_a_word_where_an_operand_begins_is_a_column(sql):
    inside = sql.partition("(")[2]
    words = [token.text for token in shown(sql).tokens if token.kind is lexer.Kind.WORD]
    assert all(
        word in words for word in inside.replace(":", " ").replace(",", " ").strip(")").split() if word.isalpha()
    )


def test_the_columns_of_search_and_cycle_belong_to_their_query():
    sql = "WITH RECURSIVE t(a) AS (SELECT 1) SEARCH DEPTH FIRST BY a SET b CYCLE a SET c USING d SELECT 1"
    found = shown(sql)
    assert found.added == {sql.index("t(a)"): ["b", "c", "d"]}
    assert "SEARCH" not in found.text
    assert "CYCLE" not in found.text


PIECES = st.sampled_from(
    """JSON_VALUE( JSON_OBJECT( JSON_TABLE( JSON_ARRAYAGG( COLUMNS( PATH NESTED '$' , : :: ) ( a "b" VALUE DEFAULT
    PASSING AS x RETURNING text int[] numeric(1) NULL ON ERROR EMPTY IS NOT JSON OBJECT WITH UNIQUE KEYS WRAPPER SEARCH
    DEPTH FIRST BY SET CYCLE TO USING ROWS FROM ( ROW( SOME( ALL( = AT LOCAL GROUP FOR ORDINALITY EXISTS""".split()
)


@given(st.lists(PIECES, max_size=30).map(" ".join))
def test_any_text_keeps_its_length_and_its_other_tokens(sql):
    try:
        found = lexer.tokens(sql)
    except (NotPermitted, SqlError):
        return
    spelled = spelling.for_parser(sql, found)
    assert len(spelled.text) == len(sql)
    assert lexer.tokens(spelled.text) == list(spelled.tokens)
    untouched = [token for at, token in enumerate(found) if at not in spelled.hidden]
    assert all(token in spelled.tokens for token in untouched)
