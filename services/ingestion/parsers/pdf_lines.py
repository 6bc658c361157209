"""Lines of a page in reading order: rows from the top down, column after column, tables in their place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from statistics import median

from services.ingestion.parsers.pdf_pages import Item, Page, Piece, Table
from services.ingestion.parsers.pdf_rows import aligned, rows_of

# Columns have at least so many lines beside each other, of at least so many characters on average.
_LEAST_ROWS = 4
_LEAST_CHARACTERS = 18
_DEEPEST = 6
# Left edges of the same column on two pages, in points.
_SAME_COLUMN = 4
_NO_ROW: list[Item] = []
# Outer part of a page in which headers and footers stand.
MARGIN = 0.12


@dataclass(frozen=True)
class Line:
    """Lengths in points. `middle` is the distance from the page's lower edge as a share of its height.

    `column_right` is where the longest line of its column ends; `table` is set where the line is one.
    """

    text: str
    page: int
    size: float = 0
    bold: bool = False
    left: float = 0
    right: float = 0
    bottom: float = 0
    height: float = 0
    middle: float = 0.5
    column_right: float = 0
    table: Table | None = None


def margin_lines(page: Page) -> list[Line]:
    """Rows in the outer parts of the page, where headers and footers would be. Heads of tables are not among them."""
    rows = rows_of([*page.pieces, *page.tables])
    low, high = MARGIN * page.height, (1 - MARGIN) * page.height
    found: list[Line] = []
    for row, below in zip_longest(rows, rows[1:], fillvalue=_NO_ROW):
        is_outside = max(item.top for item in row) < low or min(item.bottom for item in row) > high
        if is_outside and not (below and _is_head(row, below)):
            found.append(_line(row, page, 0))
    return found


def _is_head(row: list[Item], below: list[Item]) -> bool:
    """Whether a row stands right above one whose texts begin or end where its own do."""
    gap = row[0].bottom - max(item.top for item in below)
    if gap > 1.5 * (row[0].top - row[0].bottom) or any(isinstance(item, Table) for item in row + below):
        return False
    return sum(any(_is_aligned(item, other) for other in below) for item in row) >= 2


def _is_aligned(item: Item, other: Item) -> bool:
    return abs(item.left - other.left) < _SAME_COLUMN or abs(item.right - other.right) < _SAME_COLUMN


def drop(page: Page, dropped: Sequence[Line]) -> None:
    """Takes the lines off the page."""
    places = {(round(line.bottom, 1), line.text) for line in dropped}
    pieces: list[Piece] = []
    tables: list[Table] = []
    for row in rows_of([*page.pieces, *page.tables]):
        line = _line(row, page, 0)
        if (round(line.bottom, 1), line.text) not in places:
            pieces += [item for item in row if isinstance(item, Piece)]
            tables += [item for item in row if isinstance(item, Table)]
    page.pieces, page.tables = pieces, tables


def lines_of(page: Page) -> list[Line]:
    """All lines of the page; turned text is at the end."""
    found = _arranged([*page.pieces, *page.tables], page, _DEEPEST)
    return found + [_line([piece], page, 0) for piece in page.turned]


def with_heads(pages: list[list[Line]]) -> list[list[Line]]:
    """`pages` with the head of a table that goes on from the page before repeated, where the file does not do it."""
    last: Line | None = None
    for lines in pages:
        first = lines[0] if lines else None
        if last and last.table and first and first.table and _goes_on(last.table, first.table):
            rows = (last.table.rows[0], *first.table.rows)
            one = replace(first.table, rows=rows, bold_head=last.table.bold_head)
            lines[0] = replace(first, text=one.text, table=one)
        last = lines[-1] if lines else None
    return pages


def _goes_on(above: Table, below: Table) -> bool:
    """Whether a table has the columns of the one before and no head of its own."""
    if len(above.columns) != len(below.columns) or below.rows[0] == above.rows[0] or below.bold_head:
        return False
    if any(abs(one - other) > _SAME_COLUMN for one, other in zip(above.columns, below.columns, strict=True)):
        return False
    if above.bold_head:
        return True
    # Without bold type, a head is what holds no number above cells that do, such as those that go on here.
    head, first = (sum(any(map(str.isdigit, cell)) for cell in table.rows[0]) for table in (above, below))
    return head == 0 < first


def _arranged(items: Sequence[Item], page: Page, depth: int) -> list[Line]:
    rows = rows_of(items)
    band = _columns(rows) if depth else None
    if band is not None:
        first, last, gutter = band
        inside = [item for row in rows[first:last] for item in row]
        parts = (
            [item for row in rows[:first] for item in row],
            [item for item in inside if item.left < gutter],
            [item for item in inside if item.left >= gutter],
            [item for row in rows[last:] for item in row],
        )
        return [line for part in parts if part for line in _arranged(part, page, depth - 1)]
    lines: list[Line] = []
    right = max((item.right for item in items if isinstance(item, Piece)), default=0)
    for row in aligned(rows):
        tables = [item for item in row if isinstance(item, Table)]
        if tables and depth:
            lines += [_table_line(one, page) for one in tables]
            lines += _arranged([item for item in row if isinstance(item, Piece)], page, 0)
        elif row:
            lines += [_line(part, page, right) for part in _by_style(row)]
    return lines


def _by_style(row: Sequence[Item]) -> list[list[Item]]:
    """Parts of a row that a wide gap and another type set apart, such as a title from the date at the margin."""
    parts = [[row[0]]]
    for one, other in pairwise(row):
        if (
            isinstance(one, Piece)
            and isinstance(other, Piece)
            and other.left - one.right > 3 * one.size
            and (one.bold != other.bold or abs(one.size - other.size) > 0.12 * one.size)
        ):
            parts.append([])
        parts[-1].append(other)
    return parts


def _line(row: Sequence[Item], page: Page, column_right: float) -> Line:
    pieces = [item for item in row if isinstance(item, Piece)]
    if not pieces:
        return _table_line(next(item for item in row if isinstance(item, Table)), page)
    longest = max(pieces, key=lambda piece: len(piece.text))
    bottom, top = longest.bottom, longest.top
    return Line(
        text=" ".join(piece.text for piece in pieces),
        page=page.number,
        size=max(pieces[0].size, longest.size),
        bold=all(piece.bold for piece in pieces),
        left=pieces[0].left,
        right=pieces[-1].right,
        bottom=bottom,
        height=top - bottom,
        middle=(bottom + top) / 2 / page.height,
        column_right=column_right,
    )


def _table_line(one: Table, page: Page) -> Line:
    middle = (one.bottom + one.top) / 2 / page.height
    return Line(
        one.text, page.number, left=one.left, right=one.right, bottom=one.bottom, height=one.top - one.bottom,
        middle=middle, column_right=one.right, table=one,
    )  # fmt: skip


def _columns(rows: list[list[Item]]) -> tuple[int, int, float] | None:
    """The first and last row (exclusive) of the longest band with a gutter through it, and where the gutter is."""
    best: tuple[int, int, float] | None = None
    tried: set[tuple[int, int]] = set()
    for start, row in enumerate(rows):
        for one, other in pairwise(row):
            if best is not None and best[0] <= start < best[1] and one.right <= best[2] <= other.left:
                continue
            key = (round(one.right), round(other.left))
            if key in tried:
                continue
            tried.add(key)
            band = _band(rows, start, one.right, other.left)
            if band is not None and (best is None or band[1] - band[0] > best[1] - best[0]):
                best = band
    return best


def _band(rows: list[list[Item]], start: int, low: float, high: float) -> tuple[int, int, float] | None:
    """How far up and down the gap between `low` and `high` stays free; None where these are no columns of prose."""
    least = 0.8 * _usual_size(rows)
    first, last = start, start
    for step in (-1, 1):
        at = start if step == 1 else start - 1
        while 0 <= at < len(rows):
            narrowed = _narrowed(rows[at], low, high)
            if narrowed is None or narrowed[1] - narrowed[0] < least:
                break
            if len(rows[at]) == 1 and _is_apart(rows[at], rows[at - step]):
                break
            low, high = narrowed
            first, last = min(first, at), max(last, at)
            at += step
    middle = (low + high) / 2
    sides = [
        [item for row in rows[first : last + 1] for item in row if (item.left < middle) == left] for left in (1, 0)
    ]
    both = sum(row[0].left < middle < row[-1].right for row in rows[first : last + 1])
    if both >= _LEAST_ROWS and all(_is_prose(side) for side in sides):
        return first, last + 1, middle
    return None


def _narrowed(row: list[Item], low: float, high: float) -> tuple[float, float] | None:
    middle = (low + high) / 2
    for item in row:
        if item.left < middle < item.right:
            return None
        if item.right <= middle:
            low = max(low, item.right)
        else:
            high = min(high, item.left)
    return low, high


def _is_apart(row: list[Item], neighbour: list[Item]) -> bool:
    """Whether a row stands so far from its neighbour that it need not belong to its columns."""
    gap = max(row[0].bottom - neighbour[0].top, neighbour[0].bottom - row[0].top)
    return gap > 1.2 * (row[0].top - row[0].bottom)


def _is_prose(side: list[Item]) -> bool:
    pieces = [item for item in side if isinstance(item, Piece)]
    if len(pieces) < _LEAST_ROWS:
        return any(isinstance(item, Table) for item in side)
    left, right = min(piece.left for piece in pieces), max(piece.right for piece in pieces)
    filled = median((piece.right - piece.left) / (right - left or 1) for piece in pieces)
    return sum(len(piece.text) for piece in pieces) / len(pieces) >= _LEAST_CHARACTERS and filled >= 0.6


def _usual_size(rows: list[list[Item]]) -> float:
    sizes = [item.size for row in rows for item in row if isinstance(item, Piece)]
    return median(sizes) if sizes else 10
