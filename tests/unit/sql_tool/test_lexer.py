"""Tokens as PostgreSQL sees them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.runtime.errors import NotPermitted, SqlError
from services.sql_tool.lexer import Kind, fold, tokens


def texts(sql):
    return [token.text for token in tokens(sql)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT Id", ["select", "id"]),
        ('"Id" "a""b"', ["Id", 'a"b']),
        ("'it''s' E'a\\'b' $$;$$ $t$ $$ $t$", ["'it''s'", "E'a\\'b'", "$$;$$", "$t$ $$ $t$"]),
        ("1 /* a /* b */ c */ 2 -- x\n3", ["1", "2", "3"]),
        ("a=-1", ["a", "=", "-", "1"]),
        ("a@-1", ["a", "@-", "1"]),
        ("a->>'b'", ["a", "->>", "'b'"]),
        ("$1::int", ["$1", ":", ":", "int"]),
        ("1.5e-3 .5 0xff", ["1.5e-3", ".5", "0xff"]),
        ("größe", ["größe"]),
        ("1--x", ["1"]),
    ],
)
def test_text_is_split_as_postgresql_splits_it(sql, expected):
    assert texts(sql) == expected


@pytest.mark.parametrize("sql", ["'a", '"a', "/* a /* b */", "$$a", "E'a\\'"])
def test_what_does_not_end_is_a_syntax_error(sql):
    with pytest.raises(SqlError):
        tokens(sql)


@pytest.mark.parametrize(
    "sql", ["a\u00a0b", "a\u200bb", "U&'a'", "a$b", "1a", "$1a", "{a}", "`a`", "\\", "a" * 64, "\u0663"]
)
def test_what_could_be_read_in_two_ways_is_refused(sql):
    with pytest.raises(NotPermitted) as caught:
        tokens(sql)
    assert caught.value.metadata["rule"] == "characters"


def test_only_ascii_letters_are_folded():
    assert fold("ÑaÑ", False) == "ÑaÑ"
    assert fold("ABC", False) == "abc"
    assert fold("ABC", True) == "ABC"


@given(st.text(max_size=60))
@example(".²")
@example(".٣")
def test_tokens_lie_in_order_within_the_text(text):
    try:
        found = tokens(text)
    except (NotPermitted, SqlError):
        return
    ends = [0, *(token.end for token in found)]
    assert all(end <= token.start < token.end <= len(text) for end, token in zip(ends, found, strict=False))
    assert all(token.kind in Kind for token in found)
