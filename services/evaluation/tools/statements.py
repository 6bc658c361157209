"""Whether two SQL statements ask for the same: both are run, and their rows compared."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from datetime import time as midnight
from decimal import Decimal
from typing import Any, Protocol

from sqlglot import exp

from services.evaluation.answered import Json
from services.evaluation.sql_text import parsed
from services.evaluation.tools.expectation import as_day

# Averages are rounded by one writer and not by another.
_TOLERANCE = 1e-5
# More columns than this are compared in their order only: 120 orders are looked at otherwise.
_MAX_REORDERED = 5

Row = tuple[Any, ...]


class StatementFailed(Exception):
    """The database refused a statement, or took too long. The message is the database's."""


@dataclass(frozen=True)
class Rows:
    """A result: how many columns there are, and the rows in the order in which they came."""

    column_count: int
    rows: Sequence[Row]


class Executes(Protocol):
    """Runs a statement that reads, on the data that the questions are about."""

    async def rows(self, statement: str, values: Sequence[Json]) -> Rows:
        """Its rows; `values` are those of $1, $2 … Raises StatementFailed."""
        ...


async def equivalent(
    executes: Executes, expected: str, expected_values: Sequence[Json], actual: str, actual_values: Sequence[Json]
) -> bool:
    """Whether both give the same rows, in whatever order unless `expected` asks for one, and of columns in any order.

    The same rows on this data: two statements may still differ on other data. Raises StatementFailed when `expected`
    fails, which is the golden set's fault; when `actual` does, it is not equivalent.
    """
    wanted = await executes.rows(expected, expected_values)
    try:
        got = await executes.rows(actual, actual_values)
    except StatementFailed:
        return False
    return same_rows(wanted, got, ordered=asks_for_an_order(expected))


def asks_for_an_order(statement: str) -> bool:
    """Whether the outermost SELECT has ORDER BY. A statement that cannot be read has none."""
    tree = parsed(statement)
    return isinstance(tree, exp.Query) and tree.args.get("order") is not None


def same_rows(wanted: Rows, got: Rows, *, ordered: bool) -> bool:
    """Compares as multisets, or as lists. Numbers may differ by rounding, columns by their order and their names."""
    if wanted.column_count != got.column_count or len(wanted.rows) != len(got.rows):
        return False
    places = range(wanted.column_count)
    orders = itertools.permutations(places) if wanted.column_count <= _MAX_REORDERED else [tuple(places)]
    left = _arranged([[_plain(value) for value in row] for row in wanted.rows], ordered=ordered)
    plain = [[_plain(value) for value in row] for row in got.rows]
    return any(
        all(map(_same_row, left, _arranged([[row[place] for place in order] for row in plain], ordered=ordered)))
        for order in orders
    )


def _arranged(rows: list[list[Any]], *, ordered: bool) -> list[list[Any]]:
    return rows if ordered else sorted(rows, key=lambda row: [_key(value) for value in row])


def _plain(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int() | float() | Decimal():
            return float(value)
        case date():
            return _day(value.isoformat())
        case _:
            return _day(str(value))


def _day(text: str) -> str:
    """A month that was cut out of a date is a time at midnight."""
    time = as_day(text)
    return time.date().isoformat() if time and time.time() == midnight() else text


def _key(value: Any) -> tuple[str, Any]:
    # Rounded, so that what is equal but for rounding sorts alike.
    return (type(value).__name__, "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value))


def _same_row(left: list[Any], right: list[Any]) -> bool:
    return all(map(_same_value, left, right))


def _same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=_TOLERANCE)
    return type(left) is type(right) and left == right
