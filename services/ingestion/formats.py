"""Tells what a file is: by its first bytes, then its name, then what the sender says. Bytes win over names."""

import re
import unicodedata
import zipfile
from io import BytesIO
from pathlib import PurePath

from services.ingestion.parsed import Unreadable

SUPPORTED = "txt, md, html, pdf or docx"

_EXTENSIONS = {
    "txt": "txt", "text": "txt", "log": "txt", "md": "md", "markdown": "md", "mdown": "md", "html": "html",
    "htm": "html", "xhtml": "html", "pdf": "pdf", "docx": "docx",
}  # fmt: skip
_MEDIA_TYPES = {
    "text/plain": "txt", "text/markdown": "md", "text/x-markdown": "md", "text/html": "html",
    "application/xhtml+xml": "html",
}  # fmt: skip
_MAGIC = {
    b"\xd0\xcf\x11\xe0": "doc, xls, ppt or msg (old Office)", b"{\\rtf": "rtf", b"\x89PNG": "png",
    b"\xff\xd8\xff": "jpg",
    b"GIF8": "gif", b"II*\0": "tiff", b"MM\0*": "tiff", b"\x1f\x8b": "gzip", b"7z\xbc\xaf": "7z", b"Rar!": "rar",
    b"\x7fELF": "program", b"MZ": "program", b"SQLite format 3": "sqlite", b"PAR1": "parquet",
}  # fmt: skip
_HTML_START = re.compile(rb"\s*(<!--.*?-->\s*|<\?xml[^>]*>\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S)
_OTHER_TEXT = {"json", "csv", "tsv", "xml", "ipynb", "rss", "yaml", "yml", "eml", "tex", "js", "css", "py"}
# Of 1,000 characters of prose in any script fewer than this many are controls.
_LEAST_PRINTABLE = 0.97


def detect(content: bytes, filename: str = "", content_type: str = "") -> str:
    """`txt`, `md`, `html`, `pdf` or `docx`. Raises Unreadable for anything else, naming it where it is known."""
    if b"%PDF-" in content[:1024]:
        return "pdf"
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(content)
    for magic, name in _MAGIC.items():
        if content.startswith(magic):
            raise _unsupported(name)
    bare = content.removeprefix(b"\xef\xbb\xbf")
    if _HTML_START.match(bare[:4096]):
        return "html"
    extension = PurePath(filename).suffix.lower().lstrip(".")
    if extension in _OTHER_TEXT:
        raise _unsupported(extension)
    # A text named .pdf or .docx is still a text.
    by_name = _EXTENSIONS.get(extension, "")
    by_type = _MEDIA_TYPES.get(content_type.split(";")[0].strip().lower(), "")
    kind = by_name if by_name in ("txt", "md", "html") else by_type or "txt"
    if not looks_like_text(content[:65536]):
        raise Unreadable(f"The content is neither text nor a known format; send {SUPPORTED}.")
    return kind


def _zipped(content: bytes) -> str:
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = set(archive.namelist())
            media_type = archive.read("mimetype")[:100].decode("ascii", "replace") if "mimetype" in names else ""
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, OSError, EOFError):
        raise Unreadable("The file is a damaged zip or docx: its table of contents cannot be read.") from None
    if "word/document.xml" in names or ("[Content_Types].xml" in names and any(n.startswith("word/") for n in names)):
        return "docx"
    for part, name in (("xl/", "xlsx"), ("ppt/", "pptx")):
        if any(n.startswith(part) for n in names):
            raise _unsupported(name)
    raise _unsupported("epub" if "epub" in media_type else "odt" if "opendocument" in media_type else "zip")


def _unsupported(name: str) -> Unreadable:
    return Unreadable(f"The format {name} is not supported yet; send {SUPPORTED}.")


def looks_like_text(sample: bytes) -> bool:
    """Whether `sample` is text in an encoding that `decode` reads."""
    try:
        decode(sample, cut=True)
    except Unreadable:
        return False
    return True


def decode(content: bytes, *, cut: bool = False) -> str:
    """Text by byte order mark, else UTF-8, else Windows-1252. `cut`: the end may be in the middle of a character."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if content.startswith(mark):
            return _checked(content[len(mark) :].decode(encoding, "replace"))
    try:
        return _checked(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        if cut and error.start >= len(content) - 3:
            return _checked(content[: error.start].decode("utf-8"))
    return _checked(content.decode("cp1252", "replace"))


_CHARSET = re.compile(rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w-]{3,40})", re.I)


def decode_html(content: bytes) -> str:
    """Text of a page in the encoding that it declares, where that works; else as `decode`."""
    declared = _CHARSET.search(content[:4096])
    if declared and not content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        try:
            return _checked(content.decode(declared[1].decode("ascii")))
        except (LookupError, UnicodeError):
            pass
    return decode(content)


def _checked(text: str) -> str:
    sample = text[:100_000]
    printable = sum(character.isprintable() or character in "\t\n\r\f\v" for character in sample)
    replaced = sample.count("\ufffd")
    if sample and (printable - replaced) / len(sample) < _LEAST_PRINTABLE:
        raise Unreadable("The encoding of the text cannot be told; save it as UTF-8.")
    return clean(text)


_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufeff\ufffe\uffff]")


def clean(text: str) -> str:
    """NFC, Unix line ends, and without controls, lone surrogates and byte order marks."""
    text = _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text if text.isascii() else unicodedata.normalize("NFC", text)
