"""Rows of a page, and border-less tables: texts that stand below each other in columns."""

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from services.ingestion.parsers.pdf_pages import Item, Piece, Table

_MARKER = re.compile(r"[•●▪◦‣·∙*–-]|\(?[a-z]{1,4}[.)]|\(?\d{1,3}[.)]|\.?\d{1,2}(\.\d{1,2}){0,4}\.?", re.I)
_PROSE_CHARACTERS = 18


def rows_of(items: Sequence[Item]) -> list[list[Item]]:
    """Items that stand beside each other, from the top down, each row from left to right."""
    rows: list[list[Item]] = []
    for item in sorted(items, key=lambda item: (-item.top, item.left)):
        if rows and _beside(rows[-1][0], item):
            rows[-1].append(item)
        else:
            rows.append([item])
    for row in rows:
        row.sort(key=lambda item: item.left)
    return rows


def _beside(first: Item, second: Item) -> bool:
    shared = min(first.top, second.top) - max(first.bottom, second.bottom)
    return shared > 0.5 * min(first.top - first.bottom, second.top - second.bottom)


def aligned(rows: list[list[Item]]) -> list[list[Item]]:
    """`rows` with each border-less table among them as one item."""
    found: list[list[Item]] = []
    start = 0
    while start < len(rows):
        growing = _Aligned(rows, start)
        made = growing.table()
        found.append([made] if made else rows[start])
        start += len(growing.rows) if made else 1
    return found


def _pieces(row: list[Item]) -> list[Piece] | None:
    """The row, where it holds no table."""
    pieces = [item for item in row if isinstance(item, Piece)]
    return pieces if len(pieces) == len(row) else None


def _touch(piece: Piece, column: list[float]) -> bool:
    return column[0] < piece.right and piece.left < column[1]


class _Aligned:
    """Rows from `start` on whose texts stand in the same columns."""

    def __init__(self, rows: list[list[Item]], start: int) -> None:
        self.rows: list[list[Piece]] = []
        self._columns: list[list[float]] = []
        # A row of one text that runs over several columns, such as a note below an entry.
        self._notes: list[int] = []
        for index in range(start, len(rows)):
            row = _pieces(rows[index])
            if row is None or (not self.rows and len(row) < 2):
                break
            if not self._take(row) and not self._take_note(row, rows[index + 1 : index + 2]):
                break
        while self.rows and len(self.rows[-1]) < 2:
            self.rows.pop()

    def _take_note(self, row: list[Piece], following: list[list[Item]]) -> bool:
        """Takes a row that fits no column where the next one goes on with the table."""
        after = _pieces(following[0]) if following else None
        if len(row) > 1 or len(self._columns) < 3 or row[0].bold or after is None or len(after) < 3:
            return False
        if len(self.rows) < 2 or self._is_far(row) or row[0].left < self._columns[0][0] - 1:
            return False
        if any(sum(_touch(piece, column) for column in self._columns) != 1 for piece in after):
            return False
        self._notes.append(len(self.rows))
        self.rows.append(row)
        return True

    def _is_far(self, row: list[Piece]) -> bool:
        above = min(piece.bottom for piece in self.rows[-1])
        return above - max(piece.top for piece in row) > 2.2 * max(piece.size for piece in row)

    def _take(self, row: list[Piece]) -> bool:
        if self.rows:
            if self._is_far(row):
                return False
            # A heading in the first column: another table begins.
            if len(row) == 1 and row[0].bold and not self.rows[-1][0].bold and len(self.rows) > 1:
                return False
        columns = [list(column) for column in self._columns]
        for piece in row:
            touched = [column for column in columns if _touch(piece, column)]
            if len(touched) > 1 or (not touched and self.rows and len(row) < 2):
                return False
            if touched:
                touched[0][:] = min(touched[0][0], piece.left), max(touched[0][1], piece.right)
            else:
                columns.append([piece.left, piece.right])
        columns.sort()
        least = 0.3 * row[0].size
        if any(right[0] - left[1] < least for left, right in pairwise(columns)):
            return False
        self._columns = columns
        self.rows.append(row)
        return True

    def table(self) -> Table | None:
        """None when they are something else: list items, lines of prose in columns, too few."""
        count = len(self._columns)
        several = sum(len(row) >= 2 for row in self.rows)
        if several < (3 if count == 2 else 2) or several < 0.4 * len(self.rows):
            return None
        by_column = [[self._cell(row, column) for row in self.rows] for column in self._columns]
        for index in self._notes:
            at = next((at for at, column in enumerate(self._columns) if _touch(self.rows[index][0], column)), 0)
            for number, column in enumerate(by_column):
                column[index] = self.rows[index][0].text if number == at else ""
        # Numbered paragraphs: the number hangs in a column of its own.
        if sum(not all(_MARKER.fullmatch(cell) for cell in column if cell) for column in by_column) == 1:
            return None
        if all(self._is_prose(column) for column in self._columns):
            return None
        rows = self._joined([[column[index] for column in by_column] for index in range(len(self.rows))])
        left, right = self._columns[0][0], self._columns[-1][1]
        bottom = min(piece.bottom for piece in self.rows[-1])
        top = max(piece.top for piece in self.rows[0])
        lefts = tuple(column[0] for column in self._columns)
        bold = all(piece.bold for piece in self.rows[0]) and not all(piece.bold for piece in self.rows[-1])
        return Table(tuple(tuple(row) for row in rows), left, bottom, right, top, lefts, bold)

    def _inside(self, row: list[Piece], column: list[float]) -> list[Piece]:
        return [piece for piece in row if column[0] <= (piece.left + piece.right) / 2 <= column[1]]

    def _cell(self, row: list[Piece], column: list[float]) -> str:
        return " ".join(piece.text for piece in self._inside(row, column))

    def _is_prose(self, column: list[float]) -> bool:
        pieces = [piece for row in self.rows for piece in self._inside(row, column)]
        mean = sum(len(piece.text) for piece in pieces) / max(1, len(pieces))
        filled = median((piece.right - piece.left) / (column[1] - column[0] or 1) for piece in pieces) if pieces else 0
        return mean >= _PROSE_CHARACTERS and filled >= 0.6

    def _joined(self, rows: list[list[str]]) -> list[list[str]]:
        """A row without a first cell, nearer to the one above than rows are, is the rest of that one."""
        middles = [(row[0].bottom + row[0].top) / 2 for row in self.rows]
        gaps = [above - below for above, below in pairwise(middles)]
        usual = median([gap for gap, row in zip(gaps, rows[1:], strict=True) if row[0]] or [0])
        joined = [rows[0]]
        for gap, row in zip(gaps, rows[1:], strict=True):
            if row[0] or gap > 0.8 * usual:
                joined.append(row)
            else:
                joined[-1] = [f"{above} {below}".strip() for above, below in zip(joined[-1], row, strict=True)]
        return joined
