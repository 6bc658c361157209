"""Tables that are drawn with lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

# Its search for cells works on lines alone; its own reading of a page takes a hundred times as long as PDFium's.
from pdfplumber import table as plumber

from services.ingestion.parsers.pdf_edges import Edge
from services.ingestion.parsers.pdf_pages import Page, Piece, Table, Word

# Lines whose ends are this near to each other meet.
_TOLERANCE = 3
_LEAST_EDGES = 4
_LONGEST_CELL = 1500


def take_ruled(page: Page) -> None:
    """Moves the texts of tables that are drawn with lines into `page.tables`."""
    if len(page.edges) < _LEAST_EDGES or not page.pieces:
        return
    for cells in _grids(page.edges, page.height):
        filled = _Filled.of(cells, page.pieces)
        if made := filled.table():
            page.tables.append(made)
            page.pieces = filled.rest


_Cell = tuple[float, float, float, float]


def _grids(edges: Sequence[Edge], height: float) -> list[list[_Cell]]:
    """Cells of each grid: left, bottom, right, top."""
    drawn = [_drawn(edge, height) for edge in edges]
    merged = plumber.merge_edges(drawn, _TOLERANCE, _TOLERANCE, _TOLERANCE, _TOLERANCE)
    merged = [edge for edge in merged if max(edge["x1"] - edge["x0"], edge["bottom"] - edge["top"]) > 2 * _TOLERANCE]
    crossings = plumber.edges_to_intersections(merged, _TOLERANCE, _TOLERANCE)
    if len(crossings) > 3000:
        return []
    cells = cast(list[Any], plumber.intersections_to_cells(crossings))
    grids = cast(list[list[Any]], plumber.cells_to_tables(cells))
    return [[(x0, height - bottom, x1, height - top) for x0, top, x1, bottom in grid] for grid in grids]


def _drawn(edge: Edge, height: float) -> dict[str, Any]:
    """As pdfplumber has it, with y downwards."""
    is_flat = edge.right - edge.left >= edge.top - edge.bottom
    x0, x1, y0, y1 = edge.left, edge.right, edge.bottom, edge.top
    if is_flat:
        y0 = y1 = (y0 + y1) / 2
    else:
        x0 = x1 = (x0 + x1) / 2
    return {
        "object_type": "line", "orientation": "h" if is_flat else "v", "x0": x0, "x1": x1, "top": height - y1,
        "bottom": height - y0, "width": x1 - x0, "height": y1 - y0, "doctop": height - y1,
    }  # fmt: skip


@dataclass
class _Filled:
    """Cells of one grid with the words in them."""

    cells: list[_Cell]
    words: dict[_Cell, list[tuple[Piece, Word]]] = field(default_factory=dict[_Cell, list[tuple[Piece, Word]]])
    rest: list[Piece] = field(default_factory=list[Piece])

    @classmethod
    def of(cls, cells: list[_Cell], pieces: list[Piece]) -> "_Filled":
        left, bottom = min(cell[0] for cell in cells), min(cell[1] for cell in cells)
        right, top = max(cell[2] for cell in cells), max(cell[3] for cell in cells)
        filled = cls(cells)
        for piece in pieces:
            middle = (piece.bottom + piece.top) / 2
            if not (bottom <= middle <= top and piece.left < right and piece.right > left):
                filled.rest.append(piece)
                continue
            outside: list[Word] = []
            for word in piece.words:
                cell = filled._cell_at((word.left + word.right) / 2, middle)
                if cell is None:
                    outside.append(word)
                else:
                    filled.words.setdefault(cell, []).append((piece, word))
            if outside:
                filled.rest.append(Piece(tuple(outside), piece.bottom, piece.top, piece.size, piece.bold))
        return filled

    def _cell_at(self, x: float, y: float) -> _Cell | None:
        return next((cell for cell in self.cells if cell[0] <= x <= cell[2] and cell[1] <= y <= cell[3]), None)

    def table(self) -> Table | None:
        """None for a frame around text, a form of one row, or an empty grid."""
        lefts = _distinct([cell[0] for cell in self.cells])
        tops = _distinct([-cell[3] for cell in self.cells])
        rows = [[""] * len(lefts) for _ in tops]
        for cell, words in self.words.items():
            rows[_index(tops, -cell[3])][_index(lefts, cell[0])] = _text(words)
        kept = [index for index in range(len(lefts)) if any(row[index] for row in rows)]
        rows = [[row[index] for index in kept] for row in rows if any(row)]
        if not _is_grid(rows):
            return None
        first = max(cell[3] for cell in self.words)
        head = [piece for cell, words in self.words.items() if cell[3] > first - _TOLERANCE for piece, _ in words]
        x0, y0 = min(cell[0] for cell in self.cells), min(cell[1] for cell in self.cells)
        x1, y1 = max(cell[2] for cell in self.cells), max(cell[3] for cell in self.cells)
        columns = tuple(lefts[index] for index in kept)
        bold = all(piece.bold for piece in head)
        return Table(tuple(tuple(row) for row in rows), x0, y0, x1, y1, columns, bold)


def _distinct(values: list[float]) -> list[float]:
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > _TOLERANCE:
            found.append(value)
    return found


def _index(values: list[float], value: float) -> int:
    return min(range(len(values)), key=lambda index: abs(values[index] - value))


def _text(words: list[tuple[Piece, Word]]) -> str:
    """Words line by line; those of one line from left to right."""
    lines: list[tuple[float, list[Word]]] = []
    for piece, word in sorted(words, key=lambda one: -(one[0].bottom + one[0].top)):
        middle = (piece.bottom + piece.top) / 2
        if lines and abs(lines[-1][0] - middle) < 0.4 * (piece.top - piece.bottom):
            lines[-1][1].append(word)
        else:
            lines.append((middle, [word]))
    return " ".join(word.text for _, line in lines for word in sorted(line, key=lambda word: word.left))


def _is_grid(rows: list[list[str]]) -> bool:
    """Two rows and columns or more, and no page in a frame."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    cells = [cell for row in rows for cell in row]
    filled = [len(cell) for cell in cells if cell]
    several = sum(sum(map(bool, row)) >= 2 for row in rows)
    return several >= 2 and len(filled) >= 0.3 * len(cells) and max(filled) <= _LONGEST_CELL
