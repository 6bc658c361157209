"""Text out of a page: charset by BOM, header, meta or guess; the main text; nothing that a person would not see."""

import codecs
import re
from dataclasses import dataclass

import trafilatura

# Decoders that browsers know; above all not utf-7, which turns `+ADw-script` into a tag.
_CHARSETS = {
    "utf-8", "utf-16-le", "utf-16-be", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "iso8859-2",
    "iso8859-15", "koi8-r", "gb18030", "gbk", "big5", "shift_jis", "euc_jp", "euc_kr", "ascii",
}  # fmt: skip
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_-]{2,20})", re.IGNORECASE)
# Zero-width characters, direction marks and the tag block: places to hide instructions from a reader.
_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]")
_TEXT_TYPES = (
    "text/",
    "application/xhtml",
    "application/json",
    "application/xml",
    "application/rss",
    "application/atom",
)


@dataclass(frozen=True)
class Text:
    """What a reader gets of a page."""

    title: str
    text: str
    truncated: bool


def is_text(content_type: str) -> bool:
    """Whether the media type is read as text; other bodies are handed on as they are."""
    return not content_type or content_type.strip().lower().startswith(_TEXT_TYPES)


def extract(body: bytes, content_type: str, url: str, max_chars: int) -> Text:
    """Title and main text of a page. CPU-bound: call it in a thread."""
    text = decode(body, content_type)
    title = ""
    if "html" in content_type.lower() or text.lstrip()[:200].lower().startswith(("<!doctype html", "<html")):
        metadata = trafilatura.extract_metadata(text, default_url=url)
        title = (metadata.title if metadata else None) or ""
        text = trafilatura.extract(text, url=url, include_tables=True, include_comments=False, favor_recall=True) or ""
    text = _INVISIBLE.sub("", text).strip()
    return Text(_INVISIBLE.sub("", title).strip(), text[:max_chars], len(text) > max_chars)


def decode(body: bytes, content_type: str) -> str:
    """The characters of a body; those that the charset does not have become U+FFFD."""
    for bom, charset in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(charset, errors="replace")
    header = re.search(r"charset\s*=\s*[\"']?([A-Za-z0-9_-]{2,20})", content_type, re.IGNORECASE)
    meta = _META.search(body[:4096])
    for name in (header and header.group(1), meta and meta.group(1).decode("ascii")):
        charset = _known(name) if name else None
        if charset:
            return body.decode(charset, errors="replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("cp1252", errors="replace")


def _known(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    # Browsers read Latin-1 as Windows-1252, and so do the people who write pages.
    if found in ("iso8859-1", "ascii"):
        return "cp1252"
    return found if found in _CHARSETS else None
