"""Excel and OpenDocument spreadsheets to blocks: each sheet a section, its tables as Markdown tables."""

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import islice
from typing import Any

import openpyxl
from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from services.ingestion.parsed import Block, Outline, Parsed, Unreadable
from services.ingestion.parsers.archives import Archive, name_of
from services.ingestion.parsers.pictures import Pictures
from services.ingestion.parsers.sheets import MOST_ROWS, Budget, add_rows, written
from services.ingestion.parsers.titles import own_language, own_title

_LOOKED_AT_ROWS = 3 * MOST_ROWS
_MOST_COLUMNS = 1_000
_MOST_MERGED = 20_000
_LARGEST_SEARCHED_BYTES = 64 * 1024 * 1024
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b[^>]*\bref="([A-Z]{1,3})(\d+):([A-Z]{1,3})(\d+)"')

Merged = list[tuple[tuple[int, int], tuple[int, int]]]


def parse_xlsx(content: bytes) -> Parsed:
    """Blocks of a workbook. Values are those that Excel stored last: nothing is computed, no macro runs."""
    archive = Archive(content, "xlsx")
    if "xl/workbook.bin" in archive.names:
        return parse_workbook(content, "xlsb")
    try:
        book: Any = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True, keep_links=False)
        sheets = [sheet for sheet in book.worksheets if hasattr(sheet, "iter_rows")]
    except MemoryError:
        raise
    except Exception:  # openpyxl raises whatever its many descriptors raise; the other library is more lenient
        return parse_workbook(content, "xlsx")
    outline, budget = Outline(), Budget()
    for sheet in sheets:
        if sheet.sheet_state != "visible":
            budget.warnings.append(f'Sheet "{sheet.title}" is hidden in the workbook; it was read.')
        _begin(outline, sheet.title)
        # Files of other programs declare a wrong extent; without one all rows are read.
        sheet.reset_dimensions()
        merged = _merged_ranges(archive, sheet._worksheet_path)
        rows = ([_shown(cell) for cell in row[:_MOST_COLUMNS]] for row in sheet.iter_rows())
        try:
            add_rows(outline, sheet.title, _filled(rows, merged), budget)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            budget.warnings.append(f'Sheet "{sheet.title}" is damaged; a part of it was not read.')
    _comments(archive, outline)
    pictures = Pictures(archive, "xlsx")
    outline.blocks += [Block(text) for text in pictures.all()]
    properties = book.properties
    return Parsed(
        title=own_title(properties.title),
        language=own_language(properties.language),
        blocks=tuple(outline.blocks),
        warnings=(*budget.warnings, *pictures.warnings(outline.blocks)),
    )


def parse_workbook(content: bytes, format: str) -> Parsed:
    """Blocks of an xls, xlsb or ods file, and of an xlsx that the usual library rejects."""
    if format != "xls":
        Archive(content, format)
    outline, budget = Outline(), Budget()
    try:
        book = CalamineWorkbook.from_filelike(BytesIO(content))
        for sheet in book.sheets_metadata:
            if sheet.typ != SheetTypeEnum.WorkSheet:
                continue
            if sheet.visible != SheetVisibleEnum.Visible:
                budget.warnings.append(f'Sheet "{sheet.name}" is hidden in the workbook; it was read.')
            _begin(outline, sheet.name)
            cells = book.get_sheet_by_name(sheet.name)
            rows = ([written(cell) for cell in row[:_MOST_COLUMNS]] for row in cells.to_python(False, _LOOKED_AT_ROWS))
            add_rows(outline, sheet.name, _filled(rows, cells.merged_cell_ranges or []), budget)
            if cells.total_height > _LOOKED_AT_ROWS:
                budget.warnings.append(
                    f'Sheet "{sheet.name}" goes on after row {_LOOKED_AT_ROWS}; the rest was not read.'
                )
    except PasswordError:
        raise Unreadable(f"The {format} is encrypted; send a copy without a password.") from None
    except (CalamineError, ValueError, OSError, KeyError):
        raise Unreadable(f"The {format} is damaged: its sheets cannot be read.") from None
    except BaseException as error:
        # A panic of the Rust library is no Exception.
        if type(error).__name__ == "PanicException":
            raise Unreadable(f"The {format} is damaged: its sheets cannot be read.") from None
        raise
    return Parsed(blocks=tuple(outline.blocks), warnings=tuple(budget.warnings))


def _begin(outline: Outline, name: str) -> None:
    """A sheet is a section; a name that the program gave is not worth a heading."""
    if re.fullmatch(r"(?:sheet|hoja|tabelle|feuil|foglio|planilha)\s?\d*", name, re.I):
        outline.open(1, name)
    else:
        outline.heading(1, name)


def _shown(cell: Any) -> str:
    """A cell as Excel shows it, as far as that matters: percentages, currencies, dates."""
    value = cell.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return written(value)
    shown = cell.number_format if isinstance(cell.number_format, str) else "General"
    pattern = shown.partition(";")[0]
    if "%" in pattern:
        return written(round(value * 100, 8)) + " %"
    sign = _currency(pattern)
    if not sign:
        return written(value)
    return f"{value:.2f} {sign}" if isinstance(value, float) and not value.is_integer() else f"{written(value)} {sign}"


_CURRENCY = re.compile(r"\[\$([^\]-]+)[^\]]*\]|\"([^\"]{1,5})\"|([€$£¥])")


def _currency(pattern: str) -> str:
    found = _CURRENCY.search(pattern)
    return (found[1] or found[2] or found[3]).strip() if found else ""


def _merged_ranges(archive: Archive, path: str) -> Merged:
    """Merged cells as zero-based corners: they are at the end of a sheet's XML, which is otherwise streamed."""
    part = path.lstrip("/")
    if archive.sizes_bytes.get(part, 0) > _LARGEST_SEARCHED_BYTES:
        return []
    found = islice(_MERGED.finditer(archive.read(part)), _MOST_MERGED)
    return [((int(one[2]) - 1, _column(one[1])), (int(one[4]) - 1, _column(one[3]))) for one in found]


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1


def _filled(rows: Iterable[list[str]], merged: Merged) -> Iterator[list[str]]:
    """Repeats the value of cells that are merged downwards, so that each row can be read without those above."""
    down = sorted((one for one in merged if one[1][0] > one[0][0]), key=lambda one: one[0])
    open_: dict[tuple[int, int], tuple[int, str]] = {}
    following = 0
    for index, row in enumerate(rows):
        while following < len(down) and down[following][0][0] <= index:
            (_, left), (bottom, _) = down[following]
            value = row[left] if left < len(row) else ""
            if value and any(cell for column, cell in enumerate(row) if column != left):
                open_[down[following][0]] = bottom, value
            following += 1
        for (top, left), (bottom, value) in list(open_.items()):
            if index > bottom:
                del open_[top, left]
            elif index > top and left < len(row) and any(row) and not row[left]:
                row[left] = value
        yield row


def _comments(archive: Archive, outline: Outline) -> None:
    """Notes on cells, with the cell that they are about."""
    for name in sorted(one for one in archive.names if re.fullmatch(r"xl/(?:threadedC|c)omments/?\w*\d*\.xml", one)):
        root = archive.xml(name)
        for comment in root.iter() if root is not None else ():
            if name_of(comment) in ("comment", "threadedComment"):
                text = "".join(one.text or "" for one in comment.iter() if name_of(one) in ("t", "text"))
                if text.strip() and not text.startswith("[Threaded comment]"):
                    outline.add(f"Comment on {comment.get('ref')}: {written(text)}")
