"""Word 97-2003 files to blocks: text by the piece table, tables and headings by paragraph properties ([MS-DOC] 2.4)."""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, cast

import olefile

from services.ingestion.parsed import Outline, Parsed, Unreadable, table
from services.ingestion.parsers.clauses import add_paragraph
from services.ingestion.parsers.text_encoding import clean
from services.ingestion.parsers.titles import own_title

_ENCRYPTED, _SECOND_TABLE = 0x0100, 0x0200
# Offsets in the FIB: flags; characters of the main text; places of the paragraph properties and of the piece table.
_FLAGS, _CHARACTERS, _PROPERTIES, _CLX = 0x0A, 0x4C, 0x0102, 0x01A2
_PAGE_BYTES = 512
# sprmPFInTable and sprmPFTtp, switched on.
_IN_TABLE, _ROW_END = b"\x16\x24\x01", b"\x17\x24\x01"
# Instructions of a field before the text that it shows: 0x13 … 0x14 shown 0x15.
_FIELD_CODES = re.compile("\x13[^\x13\x14\x15]*(?:\x14|\x15|$)")
_SIGNS = str.maketrans({"\x0b": "\n", "\x1e": "-", "\x1f": "", "\r": "\n", "\x0c": "\n", "\x07": None})


@dataclass(frozen=True)
class _Paragraph:
    """`style` 1 to 9 are the headings that Word brings; `cell` says that its end is that of a cell."""

    text: str
    style: int
    in_table: bool
    cell: bool
    row_end: bool


def parse_doc(content: bytes) -> Parsed:
    """Blocks of a Word document of the old format. Raises Unreadable when it is damaged, encrypted or older still."""
    try:
        container = cast(Any, olefile.OleFileIO(BytesIO(content)))
        outline = _outline(_paragraphs(container))
        title = _title(container)
    except (Unreadable, MemoryError):
        raise
    except Exception:  # struct and olefile raise many kinds on damaged files
        raise Unreadable("The doc is damaged: its text cannot be read; save it as docx.") from None
    return Parsed(title=title, blocks=tuple(outline.blocks))


def _outline(paragraphs: Iterator[_Paragraph]) -> Outline:
    outline = Outline()
    rows: list[list[str]] = []
    row: list[str] = []
    cell: list[str] = []
    for one in paragraphs:
        if one.in_table:
            if one.row_end:
                rows.append(row)
                row = []
            elif one.text:
                cell.append(one.text)
            if one.cell and not one.row_end:
                row.append(" ".join(cell))
                cell = []
            continue
        outline.add(table([*rows, row]), "table")
        rows, row, cell = [], [], []
        if one.style:
            outline.heading(one.style, one.text)
        else:
            add_paragraph(outline, one.text)
    outline.add(table([*rows, row]), "table")
    return outline


def _paragraphs(container: Any) -> Iterator[_Paragraph]:
    main: bytes = container.openstream("WordDocument").read()
    flags = struct.unpack_from("<H", main, _FLAGS)[0]
    if struct.unpack_from("<H", main, 2)[0] < 0x00C1:
        raise Unreadable("The doc is of Word 95 or older; save it as docx.")
    if flags & _ENCRYPTED:
        raise Unreadable("The doc is encrypted; send a copy without a password.")
    side: bytes = container.openstream("1Table" if flags & _SECOND_TABLE else "0Table").read()
    ends, properties = _all_properties(main, side)
    begun = ""
    for text, offset, size in _pieces(main, side):
        start = 0
        for mark in re.finditer("[\r\x07\x0c]", text):
            place = bisect_right(ends, offset + size * mark.start())
            style, found = properties[place] if place < len(properties) else (0, b"")
            raw = begun + text[start : mark.end()]
            begun, start = "", mark.end()
            in_table = _IN_TABLE in found or _ROW_END in found or mark[0] == "\x07"
            words = clean(_FIELD_CODES.sub("", raw).translate(_SIGNS)).strip()
            heading = style if 1 <= style <= 9 else 0
            yield _Paragraph(words, heading, in_table, mark[0] == "\x07", _ROW_END in found)
        begun += text[start:]
    yield _Paragraph(clean(_FIELD_CODES.sub("", begun).translate(_SIGNS)).strip(), 0, False, False, False)


def _pieces(main: bytes, side: bytes) -> Iterator[tuple[str, int, int]]:
    """Text of each piece of the main document, its offset in `main`, and its bytes a character."""
    wanted = struct.unpack_from("<i", main, _CHARACTERS)[0]
    place, length = struct.unpack_from("<II", main, _CLX)
    pieces = _piece_table(side[place : place + length])
    count = (len(pieces) - 4) // 12
    starts = struct.unpack_from(f"<{count + 1}I", pieces)
    for index in range(count):
        # Of each descriptor of 8 bytes, 4 are the place of the text; a bit says one byte a character.
        where = struct.unpack_from("<I", pieces, 4 * (count + 1) + 8 * index + 2)[0]
        characters = min(starts[index + 1], wanted) - starts[index]
        if characters <= 0:
            continue
        offset = where & 0x3FFFFFFF
        if where & 0x40000000:
            offset //= 2
            yield main[offset : offset + characters].decode("cp1252", "replace"), offset, 1
        else:
            yield main[offset : offset + 2 * characters].decode("utf-16-le", "replace"), offset, 2


def _piece_table(clx: bytes) -> bytes:
    """The PlcPcd: it comes after any number of property lists (type 1)."""
    place = 0
    while clx[place] == 1:
        place += 3 + struct.unpack_from("<H", clx, place + 1)[0]
    if clx[place] != 2:
        raise Unreadable("The doc is damaged: its text cannot be read; save it as docx.")
    return clx[place + 5 : place + 5 + struct.unpack_from("<I", clx, place + 1)[0]]


def _all_properties(main: bytes, side: bytes) -> tuple[list[int], list[tuple[int, bytes]]]:
    """Where paragraphs end in `main`, and of each the number of its style and its list of properties."""
    place, length = struct.unpack_from("<II", main, _PROPERTIES)
    count = max(0, (length - 4) // 8)
    numbers = struct.unpack_from(f"<{count}I", side, place + 4 * (count + 1))
    found: list[tuple[int, int, bytes]] = []
    for number in numbers:
        page = main[(number & 0x3FFFFF) * _PAGE_BYTES :][:_PAGE_BYTES]
        runs = page[-1] if len(page) == _PAGE_BYTES else 0
        for run in range(runs):
            end = struct.unpack_from("<I", page, 4 * (run + 1))[0]
            start = 2 * page[4 * (runs + 1) + 13 * run]
            if not start:
                found.append((end, 0, b""))
                continue
            # The length is that of words; 0 says that it comes in the next byte, and is even.
            size, begin = (2 * page[start] - 1, start + 1) if page[start] else (2 * page[start + 1], start + 2)
            found.append((end, struct.unpack_from("<H", page, begin)[0], page[begin + 2 : begin + size]))
    found.sort(key=lambda one: one[0])
    return [end for end, _, _ in found], [(style, listed) for _, style, listed in found]


def _title(container: Any) -> str:
    raw: Any = container.get_metadata().title
    return own_title(raw.decode("cp1252", "replace").strip("\0") if isinstance(raw, bytes) else raw)
