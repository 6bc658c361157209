"""PDF to its title and text, page after page, as PDFium reads it."""

from typing import Any

import pypdfium2

from services.web_tool.unreadable import Unreadable

_pdfium: Any = pypdfium2
_MAX_PAGES = 200
# Of fpdfview.h.
_PASSWORD = 4


def read_pdf(content: bytes, max_chars: int) -> tuple[str, str, bool]:
    """Title, text, and whether it goes on after `max_chars` or 200 pages. Raises Unreadable."""
    try:
        document = _pdfium.PdfDocument(content)
    except _pdfium.PdfiumError as error:
        if getattr(error, "err_code", 0) == _PASSWORD:
            raise Unreadable("content", "The PDF is encrypted.") from None
        raise Unreadable("content", "The PDF is damaged.") from None
    pages: list[str] = []
    left = max_chars
    for index in range(min(len(document), _MAX_PAGES)):
        text = _text(document, index)
        pages.append(text)
        left -= len(text)
        if left < 0:
            break
    title = " ".join(str(document.get_metadata_value("Title") or "").split())
    return title, "\n\n".join(filter(None, pages)), left < 0 or len(document) > _MAX_PAGES


def _text(document: Any, index: int) -> str:
    try:
        page = document[index]
        text: str = page.get_textpage().get_text_bounded()
    except _pdfium.PdfiumError:
        return ""
    # Its marks of a hyphen at a line's end: the word goes on below.
    return text.replace("\ufffe\r\n", "").replace("\x02\r\n", "").replace("\r\n", "\n").strip()
