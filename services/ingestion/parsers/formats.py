"""Tells what a file is: by its first bytes, then its name, then what the sender says. Bytes win over names."""

import json
import re
import zipfile
from io import BytesIO
from pathlib import PurePath
from typing import Any, cast

import olefile

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.code_languages import LANGUAGES
from services.ingestion.parsers.text_encoding import clean, decode, decode_html, looks_like_text

__all__ = ["SUPPORTED", "clean", "decode", "decode_html", "detect", "looks_like_text"]

SUPPORTED = (
    "PDF, Word (docx, doc), PowerPoint (pptx, ppt), Excel (xlsx, xls, xlsb), OpenDocument (odt, ods, odp), RTF, EPUB, "
    "HTML, Markdown, txt, csv, tsv, JSON, JSON Lines, XML, RSS, YAML, mail (eml, msg), notebooks (ipynb) or source code"
)

_EXTENSIONS = {
    "txt": "txt", "text": "txt", "log": "txt", "md": "md", "markdown": "md", "mdown": "md", "mdx": "md",
    "html": "html", "htm": "html", "xhtml": "html", "csv": "csv", "tsv": "csv", "tab": "csv", "json": "json",
    "jsonl": "jsonl", "ndjson": "jsonl", "geojson": "json", "xml": "xml", "rss": "xml", "atom": "xml", "rdf": "xml",
    "yaml": "yaml", "yml": "yaml", "eml": "eml", "mht": "eml", "mhtml": "eml", "ipynb": "ipynb",
}  # fmt: skip
_MEDIA_TYPES = {
    "text/markdown": "md", "text/x-markdown": "md", "text/html": "html", "application/xhtml+xml": "html",
    "text/csv": "csv", "text/tab-separated-values": "csv", "application/json": "json", "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl", "text/xml": "xml", "application/xml": "xml", "application/rss+xml": "xml",
    "application/atom+xml": "xml", "application/yaml": "yaml", "text/yaml": "yaml", "message/rfc822": "eml",
    "application/x-ipynb+json": "ipynb",
}  # fmt: skip
# What a file that is no text begins with, and what its sender should do instead.
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "gzip archive", "unpack it and send the files"),
    (b"7z\xbc\xaf", "7z archive", "unpack it and send the files"),
    (b"Rar!", "rar archive", "unpack it and send the files"),
    (b"BZh", "bzip2 archive", "unpack it and send the files"),
    (b"\xfd7zXZ", "xz archive", "unpack it and send the files"),
    (b"\x28\xb5\x2f\xfd", "zstd archive", "unpack it and send the files"),
    (b"\x7fELF", "program", "it holds no document"),
    (b"MZ", "Windows program", "it holds no document"),
    (b"\xca\xfe\xba\xbe", "program", "it holds no document"),
    (b"\xcf\xfa\xed\xfe", "program", "it holds no document"),
    (b"\0asm", "WebAssembly program", "it holds no document"),
    (b"SQLite format 3", "SQLite database", "export its tables as csv"),
    (b"PAR1", "Parquet file", "export it as csv"),
    (b"ID3", "sound file", "send a transcript"),
    (b"OggS", "sound file", "send a transcript"),
    (b"fLaC", "sound file", "send a transcript"),
    (b"RIFF", "sound, video or picture file", "send a text"),
    (b"\x1aE\xdf\xa3", "video file", "send a transcript"),
    (b"wOF", "font", "it holds no document"),
    (b"\x89HDF", "HDF5 file", "export its tables as csv"),
    (b"\x80\x04\x95", "Python pickle", "export it as JSON or csv"),
)
_IMAGES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"BM", b"8BPS")
_HTML_START = re.compile(rb"\s*(<!--.*?-->\s*|<\?xml[^>]*>\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S)
_XML_START = re.compile(rb"\s*<\?xml\s")
_MAIL_START = re.compile(
    r"(?:(?:[A-Za-z][\w-]{1,40}:[^\n]*|[ \t][^\n]*)\n)*?(?:received|return-path|message-id|mime-version|from|subject):",
    re.I,
)
_MAIL_HEADS = re.compile(r"^(?:from|to|subject|date|message-id|mime-version):", re.I | re.M)
_CODE_NAMES = {"dockerfile": "bash", "makefile": "make", "jenkinsfile": "java", "rakefile": "ruby", "gemfile": "ruby"}


def detect(content: bytes, filename: str = "", content_type: str = "") -> str:
    """The name of a format: `txt`, `md`, `html`, `pdf`, `docx`, … or `code`, as `by_format.parse_as` knows them.

    Raises Unreadable for anything else, naming it where it is known.
    """
    start = content[:65536].lstrip(b" \t\r\n\0\xef\xbb\xbf")
    if start.startswith(b"%PDF-"):
        return "pdf"
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(content)
    if content.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return _ole(content)
    if start.startswith(b"{\\rtf"):
        return "rtf"
    if not looks_like_text(content[:65536]):
        return _binary(content)
    if _HTML_START.match(start[:4096]):
        return "html"
    return _text(content, PurePath(filename).name.lower(), content_type.split(";")[0].strip().lower())


def _binary(content: bytes) -> str:
    if b"%PDF-" in content[:1024]:
        return "pdf"
    if content.startswith(_IMAGES) or content[8:12] == b"WEBP" or content[4:12] in (b"ftypheic", b"ftypmif1"):
        return "image"
    for magic, name, advice in _MAGIC:
        if content.startswith(magic):
            raise Unreadable(f"The file is a {name}, whatever its name says: {advice}.")
    if content[4:8] == b"ftyp":
        raise Unreadable("The file is a video or sound file, whatever its name says: send a transcript.")
    raise Unreadable(f"The content is neither text nor a known format; send {SUPPORTED}.")


def _text(content: bytes, name: str, media_type: str) -> str:
    """Which text it is. The name of a binary format says nothing: a text named .pdf is still a text."""
    extension = PurePath(name).suffix.lstrip(".")
    sample = decode(content[:65536], cut=True).lstrip()
    if extension not in _EXTENSIONS and (extension in LANGUAGES or name in _CODE_NAMES):
        return "code"
    by_name = _EXTENSIONS.get(extension) or _MEDIA_TYPES.get(media_type, "")
    if by_name in ("json", "") and sample[:1] in ("{", "[") and (kind := _json(content)):
        return kind
    if by_name in ("", "txt") and _XML_START.match(content[:100]):
        return "xml"
    if by_name == "" and len(set(_MAIL_HEADS.findall(sample.partition("\n\n")[0]))) >= 3 and _MAIL_START.match(sample):
        return "eml"
    if sample.startswith("%!PS"):
        raise Unreadable("The format PostScript is not supported; send a PDF.")
    return by_name or "txt"


def _json(content: bytes) -> str:
    try:
        value: Any = json.loads(decode(content))
    except (ValueError, RecursionError):
        return ""
    return "ipynb" if isinstance(value, dict) and "cells" in value and "nbformat" in value else "json"


_ZIP_PARTS = (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx"))
_OPEN_DOCUMENT = {"text": "odt", "spreadsheet": "ods", "presentation": "odp"}


def _zipped(content: bytes) -> str:
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = set(archive.namelist())
            small = "mimetype" in names and archive.getinfo("mimetype").file_size < 1000
            media_type = archive.read("mimetype").decode("ascii", "replace").strip() if small else ""
    except MemoryError:
        raise
    except Exception:  # zipfile raises those of struct, zlib and codecs on damaged files, too
        raise Unreadable(
            "The file is a damaged zip, docx, xlsx or pptx: its table of contents cannot be read."
        ) from None
    for folder, kind in _ZIP_PARTS:
        if any(name.startswith(folder) for name in names):
            return kind
    if media_type == "application/epub+zip" or "META-INF/container.xml" in names:
        return "epub"
    kind = media_type.removeprefix("application/vnd.oasis.opendocument.").removesuffix("-template")
    if kind in _OPEN_DOCUMENT:
        return _OPEN_DOCUMENT[kind]
    if any(name.endswith(".iwa") for name in names) or "index.apxl" in names:
        raise Unreadable("The file is of Apple Pages, Numbers or Keynote; export it as docx, xlsx, pptx or PDF.")
    if "META-INF/MANIFEST.MF" in names or "AndroidManifest.xml" in names:
        raise Unreadable("The file is a program; it holds no document.")
    raise Unreadable("The file is a zip archive, whatever its name says: unpack it and send the files.")


def _ole(content: bytes) -> str:
    """Old Office files, mails of Outlook, and encrypted files of today's Office share one container."""
    try:
        container = cast(Any, olefile.OleFileIO(BytesIO(content)))
        entries = container.listdir()
    except MemoryError:
        raise
    except Exception:  # olefile raises what struct and its own checks raise
        raise Unreadable("The file is a damaged doc, xls, ppt or msg: its table of contents cannot be read.") from None
    streams = {str(entry[0]) for entry in entries}
    if streams & {"EncryptedPackage", "EncryptionInfo"}:
        raise Unreadable("The file is encrypted; send a copy without a password.")
    for stream, kind in (
        ("WordDocument", "doc"),
        ("Workbook", "xls"),
        ("Book", "xls"),
        ("PowerPoint Document", "ppt"),
        ("__properties_version1.0", "msg"),
    ):
        if stream in streams:
            return kind
    raise Unreadable(f"The file is of an old Office program that is not supported; send {SUPPORTED}.")
