"""The stored form: what goes in comes out, and nothing else does."""

import json
import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.tool_cache import entries
from services.tool_cache.keys import call_key

KEY = call_key("acme", "sql_query", "1", '{"q":"¿cuántos?"}', ["hr"])
LIMIT = 1024 * 1024


def entry(value, key=KEY, scopes=("*", "tool:sql_query")):
    named, rest = entries.written(key, scopes, entries.packed(value))
    assert named == "\n".join(scopes).encode()
    return entries.MAGIC + b"%016d%016d" % (7, 1_000) + rest


def read(stored, key=KEY, now_ms=3_500, most_bytes=LIMIT):
    return entries.read(key, stored, now_ms, most_bytes)


@given(st.binary(max_size=2000), st.lists(st.text("aé:/", min_size=1, max_size=9), min_size=1, max_size=5))
def test_a_value_comes_back_as_it_was_with_its_age(value, scopes):
    assert read(entry(value, scopes=scopes)) == (value, 2.5)


def test_a_large_value_is_stored_smaller_where_that_is_possible():
    value = json.dumps([{"text": "cláusula de penalización", "n": n} for n in range(2000)]).encode()
    assert len(entry(value)) < len(value) / 3
    assert read(entry(value)) == (value, 2.5)
    noise = b"".join(bytes([n * n % 251, n * 7 % 256]) for n in range(200)) + zlib.compress(value)
    assert read(entry(noise)) == (noise, 2.5)


def test_an_age_is_never_negative():
    assert read(entry(b"1"), now_ms=10) == (b"1", 0)


@pytest.mark.parametrize(
    "other",
    [
        call_key("other", "sql_query", "1", '{"q":"¿cuántos?"}', ["hr"]),
        call_key("acme", "sql_query", "1", '{"q":"¿cuántos?"}'),
        call_key("acme", "sql_query", "2", '{"q":"¿cuántos?"}', ["hr"]),
        call_key("acme", "sql_query", "1", '{"q":"¿cuándo?"}', ["hr"]),
    ],
)
def test_an_entry_of_another_call_is_none(other):
    assert read(entry(b"1"), key=other) is None


@pytest.mark.parametrize(
    "stored",
    [b"", b"SBC2", pickle.dumps({"a": 1}), b"{}", b"SBC2" + b"9" * 49, b"SBC2" + b"\xff" * 60, b"SBC1" + b"0" * 60],
)
def test_what_is_no_entry_is_none(stored):
    assert read(stored) is None


def test_an_unknown_or_broken_encoding_is_none():
    for value in (b"x1", b"d" + b"not deflated", b"d" + zlib.compress(b"1" * 9000)[:-5]):
        _, rest = entries.written(KEY, ["*"], value)
        assert read(entries.MAGIC + b"%016d%016d" % (7, 1_000) + rest) is None


def test_a_value_that_swells_beyond_the_limit_is_none():
    stored = entry(b"1" * 100_000)
    assert read(stored, most_bytes=100_000) == (b"1" * 100_000, 2.5)
    assert read(stored, most_bytes=99_999) is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_an_entry_with_a_changed_byte_is_none_or_answers_the_same_call(at, change):
    stored = bytearray(entry(b'{"rows":[[47]]}'))
    stored[at % len(stored)] ^= change
    found = read(bytes(stored))
    assert found is None or isinstance(found[0], bytes)
