"""What the sandbox of the web tool runs: a body to its title and text. Nobody else imports it."""

from collections.abc import Iterator
from typing import Any

from services.web_tool import charset
from services.web_tool.html_text import read_html
from services.web_tool.invisible import cleaned, defused
from services.web_tool.pdf_text import read_pdf
from services.web_tool.unreadable import Unreadable
from services.web_tool.xml_text import read_xml

_MAX_TITLE_CHARS = 300


def extract(content: bytes, *, kind: str, content_type: str, url: str, max_chars: int) -> Iterator[dict[str, Any]]:
    """One row: `title`, `text`, `charset`, `truncated`, `removed_invisible`; or `rule` and `message` of a refusal."""
    try:
        yield _read(content, kind, content_type, url, max_chars)
    except Unreadable as error:
        yield {"rule": error.rule, "message": error.message}


def _read(content: bytes, kind: str, content_type: str, url: str, max_chars: int) -> dict[str, Any]:
    name, removed, truncated = "", False, False
    if kind == "pdf":
        title, text, truncated = read_pdf(content, max_chars)
    else:
        text, name = charset.decode(content, content_type, is_markup=kind != "text")
        title = ""
        if kind == "html":
            title, text, removed = read_html(text, url)
        elif kind == "xml":
            title, text, removed = read_xml(text, max_chars)
    # What is cut off is cut first: cleaning must not run over megabytes that nobody gets.
    text, is_cut = text[: 4 * max_chars], len(text) > 4 * max_chars
    title, hid_in_title = _safe(title[: 4 * _MAX_TITLE_CHARS])
    text, hid = _safe(text)
    return {
        "title": " ".join(title.split())[:_MAX_TITLE_CHARS],
        "text": text.strip()[:max_chars],
        "charset": name,
        "truncated": truncated or is_cut or len(text.strip()) > max_chars,
        "removed_invisible": removed or hid or hid_in_title,
    }


def _safe(text: str) -> tuple[str, bool]:
    text, invisible = cleaned(text)
    text, live = defused(text)
    return text, invisible or live
