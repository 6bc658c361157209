"""Equivalent statements: the same rows, however they were asked for."""

import datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.evaluation.tools.statements import (
    Rows,
    StatementFailed,
    asks_for_an_order,
    equivalent,
    same_rows,
)

cells = st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5) | st.dates() | st.decimals(-100, 100)
tables = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.tuples(*[cells] * width), max_size=5).map(lambda rows: Rows(width, rows))
)


class TabledRows:
    """Knows the rows of a few statements; whatever else it is asked fails."""

    def __init__(self, known):
        self._known = known

    async def rows(self, statement, values):
        found = self._known.get((statement, *values))
        if found is None:
            raise StatementFailed("no such statement")
        return found


@settings(max_examples=40)
@given(tables, st.randoms())
def test_rows_and_columns_in_another_order_are_the_same(table, random):
    rows = list(table.rows)
    random.shuffle(rows)
    places = list(range(table.column_count))
    random.shuffle(places)
    moved = Rows(table.column_count, [tuple(row[place] for place in places) for row in rows])
    assert same_rows(table, moved, ordered=False)


@settings(max_examples=40)
@given(tables, tables)
def test_being_the_same_goes_both_ways(left, right):
    assert same_rows(left, right, ordered=False) == same_rows(right, left, ordered=False)
    if same_rows(left, right, ordered=True):
        assert same_rows(left, right, ordered=False)


@pytest.mark.parametrize(
    ("wanted", "got", "ordered", "same"),
    [
        (Rows(1, [(Decimal("526083.50"),)]), Rows(1, [(526083.5,)]), False, True),
        (Rows(1, [(Decimal("1") / 3,)]), Rows(1, [(0.333333,)]), False, True),
        (Rows(1, [(2,)]), Rows(1, [(2.1,)]), False, False),
        (Rows(1, [("2",)]), Rows(1, [(2,)]), False, False),
        (Rows(1, [(True,)]), Rows(1, [(1,)]), False, False),
        (Rows(1, [(1,), (2,)]), Rows(1, [(2,), (1,)]), True, False),
        (Rows(1, [(1,), (1,), (2,)]), Rows(1, [(1,), (2,), (2,)]), False, False),
        (Rows(1, [(1,)]), Rows(2, [(1, 2)]), False, False),
        (Rows(2, []), Rows(1, []), False, False),
        (Rows(1, [(None,)]), Rows(1, [(0,)]), False, False),
        (Rows(1, [(datetime.date(2025, 1, 1),)]), Rows(1, [("2025-01-01",)]), False, True),
        (Rows(1, [("2025-01-01 00:00:00+00",)]), Rows(1, [(datetime.date(2025, 1, 1),)]), False, True),
        (Rows(1, [("2025-01-01 10:00:00",)]), Rows(1, [(datetime.date(2025, 1, 1),)]), False, False),
        (Rows(6, [(1, 2, 3, 4, 5, 6)]), Rows(6, [(2, 1, 3, 4, 5, 6)]), False, False),
    ],
)
def test_what_counts_is_the_values(wanted, got, ordered, same):
    assert same_rows(wanted, got, ordered=ordered) is same


@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER BY 1", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 3) AS x", False),
        ("SELECT sum(a) OVER (ORDER BY b) FROM t", False),
        ("SELECT a FROM t", False),
        ("no statement at all ((", False),
        ("", False),
    ],
)
def test_an_order_counts_where_the_outermost_statement_asks_for_it(statement, asked):
    assert asks_for_an_order(statement) is asked


async def test_a_statement_that_fails_is_not_equivalent_and_an_expected_one_must_not_fail():
    executes = TabledRows({("SELECT 1",): Rows(1, [(1,)]), ("SELECT $1", 1): Rows(1, [(1,)])})
    assert await equivalent(executes, "SELECT 1", [], "SELECT $1", [1])
    assert not await equivalent(executes, "SELECT 1", [], "SELECT $1", [2])
    with pytest.raises(StatementFailed):
        await equivalent(executes, "SELECT 2", [], "SELECT 1", [])
