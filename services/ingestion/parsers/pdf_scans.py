"""Scanned pages: which they are, and their text by OCR."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers import ocr
from services.ingestion.parsers.ocr import ReadWord, Tesseract
from services.ingestion.parsers.pdf_pages import Page, Piece, Word

# What tesseract was trained for; with more pixels it takes longer and reads no better.
_DOTS_PER_INCH = 300
_MOST_PIXELS = 10_000_000
_MOST_PAGES = 100
# Beside a picture that fills the page, a stamp of so few letters is not its text.
_FEW_LETTERS = 30


def read_scans(document: Any, pages: Sequence[Page]) -> tuple[str, ...]:
    """Fills in the pieces of scanned pages; warnings name the pages that stay unread.

    Raises Unreadable when that leaves a document without text.
    """
    scanned = [page for page in pages if _is_scanned(page)]
    if not scanned:
        return ()
    tesseract = ocr.find()
    unread = scanned if tesseract is None else _read(document, scanned, tesseract)
    if not unread:
        return ()
    reason = ocr.NOT_INSTALLED if tesseract is None else "there was no time for it"
    has_text = any(_letters(page) for page in pages)
    if not has_text:
        advice = "install tesseract-ocr or send" if tesseract is None else "split it up or send"
        raise Unreadable(f"needs OCR: all text is in pictures and {reason}; {advice} a copy with a text layer.")
    verb = "is" if len(unread) == 1 else "are"
    return (f"Page{'' if len(unread) == 1 else 's'} {_ranges(unread)} {verb} scanned and not read: {reason} (OCR).",)


def _is_scanned(page: Page) -> bool:
    letters = _letters(page)
    return page.picture_share > 0.5 if 0 < letters < _FEW_LETTERS else letters == 0 and page.has_drawing


def _letters(page: Page) -> int:
    return sum(character.isalnum() for piece in (*page.pieces, *page.turned) for character in piece.text)


def _read(document: Any, scanned: Sequence[Page], tesseract: Tesseract) -> list[Page]:
    """Reads what can be read; answers the pages that could not."""
    unread = list(scanned[_MOST_PAGES:])
    for page in scanned[:_MOST_PAGES]:
        picture, scale = _picture(document, page)
        words = tesseract.read(picture, round(72 * scale))
        if words is None:
            unread.append(page)
            continue
        pieces = list(_pieces(words, page, scale))
        if sum(len(piece.text) for piece in pieces) > _letters(page):
            page.pieces = pieces
    return sorted(unread, key=lambda page: page.number)


def _picture(document: Any, page: Page) -> tuple[bytes, float]:
    """The page as a PGM, and its pixels a point."""
    scale = _DOTS_PER_INCH / 72
    scale *= min(1, math.sqrt(_MOST_PIXELS / (page.width * page.height * scale * scale)))
    opened = document[page.number - 1]
    bitmap = opened.render(scale=scale, grayscale=True)
    try:
        width, height, stride = bitmap.width, bitmap.height, bitmap.stride
        rows = bytes(bitmap.buffer)
        packed = b"".join(rows[row * stride : row * stride + width] for row in range(height))
        return b"P5 %d %d 255\n" % (width, height) + packed, scale
    finally:
        bitmap.close()
        opened.close()


def _pieces(words: Iterable[ReadWord], page: Page, scale: float) -> Iterable[Piece]:
    """Words in points; sizes differ only where a line is clearly larger: their pixels are not exact."""
    words = list(words)
    usual = median([word.bottom - word.top for word in words]) if words else 1
    for _, line in groupby(words, key=lambda word: word.line):
        group: list[ReadWord] = []
        for word in line:
            if group and word.left - group[-1].right > word.line_height:
                yield _piece(group, usual, page, scale)
                group = []
            group.append(word)
        yield _piece(group, usual, page, scale)


def _piece(group: list[ReadWord], usual: float, page: Page, scale: float) -> Piece:
    height = median([word.bottom - word.top for word in group])
    size = (height if height > 1.5 * usual else usual) / scale
    bottom = page.height - max(word.bottom for word in group) / scale
    top = page.height - min(word.top for word in group) / scale
    words = tuple(Word(word.text, word.left / scale, word.right / scale) for word in group)
    return Piece(words, bottom, top, round(1.3 * size))


def _ranges(pages: Sequence[Page]) -> str:
    """Numbers of pages for a person: "2, 4–7"."""
    found: list[list[int]] = []
    for page in pages:
        if found and found[-1][-1] == page.number - 1:
            found[-1][1:] = [page.number]
        else:
            found.append([page.number])
    return ", ".join("–".join(map(str, one)) for one in found)
