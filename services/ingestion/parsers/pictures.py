"""Pictures in Office files: what their authors say that they show, and that nobody read them."""

import re
from io import BytesIO
from typing import Any

from PIL import Image

from services.ingestion.parsed import Block, Unreadable
from services.ingestion.parsers import ocr
from services.ingestion.parsers.archives import Archive, name_of
from services.ingestion.parsers.text_encoding import clean

# Written by the program, not by the author.
_MADE_UP = re.compile(
    r"\s*(?:(?:AI-generated content may be incorrect|El contenido generado por IA puede ser incorrecto)\.?"
    r"|(?:Description automatically generated|Descripción generada automáticamente)[^\n]*)",
    re.I,
)

_MEDIA = re.compile(r"(?:word|ppt|xl)/media/.*\.(?:png|jpe?g|gif|bmp|tiff?|webp)", re.I)
# Logos, icons and lines are smaller, in pixels.
_LEAST_WIDTH, _LEAST_HEIGHT, _LEAST_AREA = 120, 24, 20_000
_MOST = 50
# In photographs OCR sees letters that are none.
_WORD = re.compile(r"[^\W\d_]{3}|\d{3}")


class Pictures:
    """Reads the pictures of one file by OCR where it is installed, each once, and knows how many it did not read."""

    def __init__(self, archive: Archive, format: str) -> None:
        """`format` is for people."""
        self._archive, self._format = archive, format
        self._ocr = ocr.find()
        self._read: set[bytes] = set()

    def paragraphs(self, picture: bytes) -> list[str]:
        """Texts in a picture; none when it is small, was read before, or is one of too many."""
        if self._ocr is None or len(self._read) >= _MOST or picture in self._read or not _may_hold_words(picture):
            return []
        texts = self._ocr.read_paragraphs(picture)
        if texts is None:
            return []
        self._read.add(picture)
        return [words for text in texts if _WORD.search(words := clean(text).strip())]

    def all(self) -> list[str]:
        """Texts of all pictures of the file."""
        names = [name for name in sorted(self._archive.names) if _MEDIA.fullmatch(name)]
        return [text for name in names[: 10 * _MOST] for text in self.paragraphs(self._archive.read(name))]

    def warnings(self, blocks: list[Block]) -> tuple[str, ...]:
        """Says that words in pictures were not read. Raises Unreadable when the file holds nothing but pictures."""
        names = [name for name in sorted(self._archive.names) if _MEDIA.fullmatch(name)]
        if names and not blocks and self._ocr is None:
            raise Unreadable(f"needs OCR: the {self._format} holds pictures but no text, and {ocr.NOT_INSTALLED}.")
        count = sum(_may_hold_words(self._archive.read(name)) for name in names[: 10 * _MOST]) - len(self._read)
        if count <= 0:
            return ()
        return ("A picture in the file was not read.",) if count == 1 else (f"{count} pictures were not read.",)


def _may_hold_words(picture: bytes) -> bool:
    try:
        with Image.open(BytesIO(picture)) as opened:
            width, height = opened.size
    except Exception:  # Pillow raises many kinds on damaged pictures, and on those that are too large
        return False
    return width >= _LEAST_WIDTH and height >= _LEAST_HEIGHT and width * height >= _LEAST_AREA


def description(element: Any) -> str:
    """The alternative text within a drawing, or empty; a single word is mostly a file name."""
    found = next((one for one in element.iter() if name_of(one) in ("cNvPr", "docPr")), None)
    text = _MADE_UP.sub("", clean(found.get("descr") or "")) if found is not None else ""
    return " ".join(text.split()) if len(text.split()) > 1 else ""
