import gzip
import io
import time
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import NotPermitted
from services.web_tool.media_types import kind_of


def zipped(*names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


DOCX = zipped("[Content_Types].xml", "word/document.xml")
ODT = zipped("mimetype", "content.xml")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100)
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
HTML = b"<!doctype html><p>x</p>"


@pytest.mark.parametrize(
    ("declared", "body", "kind"),
    [
        ("text/html; charset=utf-8", HTML, "html"),
        ("text/html", b"just words", "html"),
        ("TEXT/HTML", b"<p>x", "html"),
        ("application/xhtml+xml", b"<?xml version='1.0'?><html/>", "html"),
        ("", HTML, "html"),
        ("application/octet-stream", b"  \n<!-- note --><HTML>", "html"),
        ("application/octet-stream", b"words", "text"),
        ("text/plain", HTML, "html"),
        ("text/plain", b"a < b", "text"),
        ("text/markdown", b"# x", "text"),
        ("text/csv", b"MZ,PK,BMW\n1,2,3", "text"),
        ("application/json", b"{}", "text"),
        ("application/ld+json", b"{}", "text"),
        ("application/rss+xml", b"<rss/>", "xml"),
        ("text/xml", b"<a/>", "xml"),
        ("", b"<?xml version='1.0'?><a/>", "xml"),
        ("text/html", "<html>año</html>".encode("utf-16"), "html"),
        ("text/plain; charset=utf-16le", "año".encode("utf-16-le"), "text"),
        ("application/pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", "pdf"),
        ("application/octet-stream", b"%PDF-1.7\n", "pdf"),
        (WORD, DOCX, "office"),
        ("application/octet-stream", DOCX, "office"),
        ("application/vnd.oasis.opendocument.text", ODT, "office"),
        ("application/msword", OLE, "office"),
        ("text/rtf", b"{\\rtf1 x}", "office"),
        ("image/png", b"", "empty"),
        ("text/html", b" \r\n", "empty"),
        ("text/plain", b"FORMULA MZ", "text"),
        ("text/html", "El cobre sube.".encode("iso2022_jp"), "html"),
    ],
)
def test_a_body_is_what_header_and_bytes_agree_on(declared, body, kind):
    assert kind_of(declared, body) == kind


@pytest.mark.parametrize(
    ("declared", "body"),
    [
        ("text/html", b"%PDF-1.7"),
        ("text/html", DOCX),
        ("text/html", zipped("a.txt")),
        ("text/plain", b"MZ\x90\0\x03\0\0\0"),
        ("text/html", b"\x7fELF\x02\x01\x01\0"),
        ("text/html", gzip.compress(b"x", mtime=0)),
        ("text/html", b"\x89PNG\r\n\x1a\n"),
        ("text/html", b"\xff\xd8\xff\xe0\0\x10JFIF"),
        ("text/plain", b"\0\0\0\x18ftypmp42"),
        ("text/plain", b"SQLite format 3\0"),
        ("text/html", b"x" * 257 + b"ustar"),
        ("text/html", b"words\0and\0more\0words" * 9),
        ("text/plain", bytes(range(1, 32)) * 3),
        ("application/pdf", HTML),
        ("application/pdf", DOCX),
        (WORD, HTML),
        (WORD, zipped("a.txt")),
        ("application/zip", zipped("a.txt")),
        ("application/octet-stream", zipped("a.txt")),
        ("image/png", b"words"),
        ("image/svg+xml", b"<svg/>"),
        ("text/html", b"<svg xmlns='http://www.w3.org/2000/svg'>"),
        ("text/xml", b"<?xml version='1.0'?><!-- x --><!DOCTYPE svg PUBLIC 'x' 'y'><svg>"),
        ("video/mp4", b"words"),
        ("font/woff2", b"wOF2\0\x01\0\0"),
        ("multipart/mixed", b"words"),
    ],
)
def test_what_is_no_page_is_refused(declared, body):
    with pytest.raises(NotPermitted) as caught:
        kind_of(declared, body)
    assert caught.value.metadata["rule"] == "content_type"


@given(st.text(max_size=30), st.binary(max_size=200))
def test_any_header_and_body_are_judged_without_a_crash(declared, body):
    try:
        kind_of(declared, body)
    except NotPermitted:
        pass


@pytest.mark.parametrize(
    "piece", [b"<!---->", b"<!-- -->\n", b"<!--", b"-->", b"<!doctype svg ", b"<?xml ?>", b"<", b" "]
)
def test_no_head_takes_long_to_judge(piece):
    started = time.monotonic()
    for declared in ("text/html", "application/xml", ""):
        for body in (b"x" + piece * 1000, piece * 1000 + b"x"):
            kind_of(declared, body)
    assert time.monotonic() - started < 15
