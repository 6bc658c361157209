"""Rows of cells to blocks: what all spreadsheets and csv files have in common."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from services.ingestion.parsed import Outline, table
from services.ingestion.parsers.text_encoding import clean

# Beyond this a table is a database: it belongs behind sql_tool. What is left out is said.
MOST_ROWS = 20_000
MOST_CELLS = 400_000
_LONGEST_CELL = 20_000

Cell = str | float | bool | date | time | timedelta | None


@dataclass
class Budget:
    """What may still be read of one file, and what was left out."""

    cells: int = MOST_CELLS
    warnings: list[str] = field(default_factory=list[str])


def written(value: Cell | object) -> str:
    """A value as a person reads it: dates in ISO form, whole numbers without ".0", no floating-point dust."""
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
        case datetime():
            midnight = value.time() == time()
            return value.date().isoformat() if midnight else value.isoformat(" ", "seconds")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat("seconds")
        case timedelta():
            return str(value)
        case _:
            text = str(value)
            return clean(text[:_LONGEST_CELL]).strip()


def add_rows(outline: Outline, name: str, rows: Iterable[Sequence[str]], budget: Budget) -> None:
    """Adds the tables of one sheet: empty rows part them, a line of one cell above a table is its caption."""
    region: list[list[str]] = []
    for row in _bounded(name, rows, budget):
        if any(row):
            region.append(list(row))
        elif region:
            _add_region(outline, region)
            region = []
    _add_region(outline, region)


def _bounded(name: str, rows: Iterable[Sequence[str]], budget: Budget) -> Iterator[Sequence[str]]:
    of = f'Sheet "{name}"' if name else "The table"
    read = 0
    for row in rows:
        filled = sum(map(bool, row))
        if filled and (read >= MOST_ROWS or budget.cells < filled):
            budget.warnings.append(f"{of} is longer than can be read: only its first {read} rows were.")
            return
        if filled:
            read += 1
            budget.cells -= filled
        yield row


def _add_region(outline: Outline, region: list[list[str]]) -> None:
    start = 0
    while start < len(region) and sum(map(bool, region[start])) == 1:
        start += 1
    # A column of single values is a list, not a table with captions.
    for row in region[:start]:
        outline.add(next(cell for cell in row if cell))
    rows = region[start:]
    if not rows:
        return
    width = max(len(row) for row in rows)
    padded = [row + [""] * (width - len(row)) for row in rows]
    used = [column for column in range(width) if any(row[column] for row in padded)]
    if len(rows) == 1:
        outline.add((": " if len(used) == 2 else " | ").join(padded[0][column] for column in used))
        return
    outline.add(table([[row[column] for column in used] for row in padded]), "table")
