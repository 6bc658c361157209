"""What a body is: by its header and by its first bytes, which must agree."""

import re
from typing import Literal

from services.runtime.errors import NotPermitted

Kind = Literal["html", "xml", "text", "pdf", "office", "picture", "empty"]

_SNIFFED_BYTES = 4096
# Those that ingestion reads by OCR.
_PICTURES = (b"\x89PNG", b"GIF87a", b"GIF89a", b"\xff\xd8\xff", b"II*\0", b"MM\0*")
# Servers say these of whatever they do not know.
_UNKNOWN = {
    "", "application/octet-stream", "binary/octet-stream", "application/binary", "application/x-download",
    "application/force-download", "application/download", "application/unknown", "unknown/unknown", "*/*",
}  # fmt: skip
_HTML = {"text/html", "application/xhtml+xml"}
_TEXT = {
    "application/json", "application/javascript", "application/x-javascript", "application/ecmascript",
    "application/yaml", "application/x-yaml", "application/toml", "application/x-ndjson", "application/jsonl",
    "application/csv", "application/sql", "application/x-sh", "application/x-tex", "application/x-latex",
    "message/rfc822",
}  # fmt: skip
_PDF = {"application/pdf", "application/x-pdf"}
_OFFICE = re.compile(
    r"application/(?:msword|rtf|epub\+zip|vnd\.(?:ms-(?:excel|powerpoint|outlook)|openxmlformats-officedocument\.|oasis"
    r"\.opendocument\.)[\w.+-]*)|text/rtf"
)
_PDF_MAGIC = b"%PDF-"
_OLE_MAGIC, _RTF_MAGIC, _ZIP_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf", b"PK\x03\x04"
# Programs, archives, pictures, sound, films, fonts, databases: they begin so, whatever their header says.
_BINARY = (
    b"\x7fELF", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe", b"\0asm", b"dex\n", b"L\0\0\0\x01\x14\x02\0", b"!<arch>\n",
    b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"\x1f\x8b", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07",
    b"\x28\xb5\x2f\xfd", b"MSCF\0",
    b"\x89PNG", b"GIF87a", b"GIF89a", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"\0\0\x01\0", b"8BPS\0",
    b"OggS\0", b"fLaC\0", b"\x1aE\xdf\xa3", b"\0\0\x01\xba", b"\0\0\x01\xb3", b"FLV\x01",
    b"wOFF\0", b"wOF2\0", b"\0\x01\0\0", b"SQLite format 3\0", b"%!PS-",
)  # fmt: skip
# Words may begin so too: only with what no text has soon after.
_BINARY_OR_WORD = (b"MZ", b"PK", b"BZh", b"ID3", b"RIFF", b"OTTO", b"BM", b"FORM")
_CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_SPACE = b" \t\r\n\x0b\x0c"
# The comments as one atom: a row of them could be divided in more ways than there is time to try.
_LOOKS_LIKE_HTML = re.compile(
    rb"(?>(?:<!--.{0,2000}?-->\s*)*)<(?:!doctype\s+html|html|head|body|title|meta)\b", re.I | re.S
)
_LOOKS_LIKE_SVG = re.compile(
    rb"(?:<\?xml.{0,300}?\?>\s*)?(?>(?:<!--.{0,1000}?-->\s*)*)(?:<!doctype\s+svg.{0,1000}?>\s*)?<svg\b", re.I | re.S
)
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_LEAST_PRINTABLE = 0.9
# A header's words go on to whoever asked, a model: whatever is no type is not repeated.
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}")
_PARAMETER = re.compile(r";\s*charset\s*=\s*\"?([\w.:-]{1,40})\"?", re.IGNORECASE)


def essence(content_type: str) -> str:
    """Type and subtype of a Content-Type header, in lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def presentable(content_type: str) -> str:
    """A Content-Type header's type and charset as far as they are well-formed; empty where there is no type."""
    declared = essence(content_type)
    if not _TYPE.fullmatch(declared):
        return ""
    charset = _PARAMETER.search(content_type)
    return f"{declared}; charset={charset[1]}" if charset else declared


def kind_of(content_type: str, body: bytes, *, pictures: bool = False) -> Kind:
    """How the body is to be read. Raises NotPermitted where it is none of those, or not what its header says.

    Without `pictures` there is no kind `picture`: nothing of it can be shown as text.
    """
    declared = essence(content_type)
    if not body.strip(_SPACE):
        return "empty"
    found = _found(body)
    if found in ("pdf", "office"):
        if declared in _UNKNOWN or (declared in _PDF if found == "pdf" else _OFFICE.fullmatch(declared)):
            return found
        raise _refused(declared, "it holds a document of another type")
    if pictures and _is_picture(body) and (declared in _UNKNOWN or declared.startswith("image/")):
        return "picture"
    if found == "binary":
        raise _refused(declared, "it holds no text")
    if found == "svg":
        raise _refused(declared, "it is a picture")
    return _kind_of_text(declared, found, body)


def _kind_of_text(declared: str, found: str, body: bytes) -> Kind:
    if declared in _HTML:
        return "html"
    if declared in ("text/xml", "application/xml") or (declared.endswith("+xml") and not declared.startswith("image/")):
        return "html" if found == "html" else "xml"
    if declared in _TEXT or (declared.startswith("text/") and declared != "text/rtf") or declared.endswith("+json"):
        # Servers that do not know a page call it plain text.
        return "html" if found == "html" and declared == "text/plain" else "text"
    if declared in _UNKNOWN:
        return "html" if found == "html" else "xml" if body.lstrip(_SPACE).startswith(b"<?xml") else "text"
    raise _refused(declared, "its type is not read")


def _found(body: bytes) -> Literal["pdf", "office", "binary", "svg", "html", "text"]:
    head = body[:_SNIFFED_BYTES]
    if head.startswith(_BOMS):
        return "html" if b"<\0h\0t\0m\0l" in head.lower() or _LOOKS_LIKE_HTML.match(head[3:].lstrip(_SPACE)) else "text"
    start = head.lstrip(_SPACE)
    if start.startswith(_PDF_MAGIC):
        return "pdf"
    if start.startswith((_OLE_MAGIC, _RTF_MAGIC)) or (head.startswith(_ZIP_MAGIC) and _is_office(body)):
        return "office"
    if _is_binary(head):
        return "binary"
    if _LOOKS_LIKE_SVG.match(start):
        return "svg"
    return "html" if _LOOKS_LIKE_HTML.match(start) else "text"


def _is_office(body: bytes) -> bool:
    """Whether a zip is a document: Office Open XML has a list of types in it, the others begin with their own."""
    return body[30:38] == b"mimetype" or b"[Content_Types].xml" in body


def _is_picture(body: bytes) -> bool:
    return body.startswith(_PICTURES) or (body.startswith(b"RIFF") and body[8:12] == b"WEBP")


def _is_binary(head: bytes) -> bool:
    if head.startswith(_BINARY) or head[4:8] == b"ftyp" or head[257:262] == b"ustar":
        return True
    if head.startswith(_BINARY_OR_WORD) and _CONTROLS.search(head, 2, 64):
        return True
    # UTF-16 without a mark: every other byte of Western text is zero.
    if head.count(0) and not any(head[part::2].count(0) > len(head) * 0.4 for part in (0, 1)):
        return True
    # Escape begins the shifts of ISO-2022-JP.
    printable = sum(byte >= 32 or byte in b"\t\r\n\x0b\x0c\x1b\0" for byte in head)
    return printable < _LEAST_PRINTABLE * len(head)


def _refused(declared: str, reason: str) -> NotPermitted:
    named = f"`{declared}`" if _TYPE.fullmatch(declared) else "without a type"
    return NotPermitted(f"The page ({named}) is not read: {reason}.", rule="content_type")
