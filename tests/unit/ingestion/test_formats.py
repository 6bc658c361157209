import io
import random
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.formats import SUPPORTED, detect

NOTEBOOK = b'{"cells": [], "nbformat": 4}'
MAIL = b"Received: from a by b\nFrom: Ana <ana@example.org>\nTo: b@example.org\nSubject: Hola\n\nTexto"


@pytest.mark.parametrize(
    ("content", "filename", "content_type", "expected"),
    [
        (b"%PDF-1.7 ...", "notes.txt", "text/plain", "pdf"),
        (b"\n\n%PDF-1.4", "", "", "pdf"),
        (b"\x00\xff\xfe\x80junk %PDF-1.4\n\xff", "", "", "pdf"),
        (b"A PDF begins with %PDF- and a version.", "a.txt", "", "txt"),
        (b"<!DOCTYPE html><html>", "page.txt", "", "html"),
        (b"\xef\xbb\xbf<!-- saved --><html lang='es'>", "", "", "html"),
        (b"# Title", "README.md", "", "md"),
        (b"# Title", "", "text/markdown; charset=utf-8", "md"),
        (b"<p>fragment</p>", "a.html", "", "html"),
        (b"plain words", "contract.pdf", "application/pdf", "txt"),
        (b"plain words", "contract.docx", "", "txt"),
        (b"plain words", "", "", "txt"),
        (b"BM and MZ are initials", "a.txt", "", "txt"),
        (b"{\\rtf1 text}", "a.doc", "", "rtf"),
        (b'{"a": 1}', "", "", "json"),
        (b'{"a": 1}', "a.docx", "", "json"),
        (NOTEBOOK, "a.json", "", "ipynb"),
        (b"{not json", "", "", "txt"),
        (b'{"a": 1}\n{"a": 2}', "a.jsonl", "", "jsonl"),
        (b"<?xml version='1.0'?><a/>", "a.txt", "", "xml"),
        (b"a;b\n1;2\n", "a.csv", "", "csv"),
        (b"a\tb\n1\t2\n", "", "text/tab-separated-values", "csv"),
        (MAIL, "a.eml", "", "eml"),
        (MAIL, "", "", "eml"),
        (b"From: nobody", "", "", "txt"),
        (b"a: 1", "values.yaml", "", "yaml"),
        (b"def f(): ...", "a.py", "", "code"),
        (b"FROM python", "Dockerfile", "", "code"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a.txt", "", "image"),
        ("Cláusula única".encode("cp1252"), "a.txt", "", "txt"),
        ("Cláusula única".encode("utf-16"), "a.txt", "", "txt"),
    ],
)
def test_bytes_count_more_than_names(content, filename, content_type, expected):
    assert detect(content, filename, content_type) == expected


def zipped(*names, mimetype=""):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        if mimetype:
            archive.writestr("mimetype", mimetype)
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (zipped("[Content_Types].xml", "word/document.xml"), "docx"),
        (zipped("xl/workbook.xml"), "xlsx"),
        (zipped("ppt/slides/slide1.xml"), "pptx"),
        (zipped("OEBPS/a.xhtml", mimetype="application/epub+zip"), "epub"),
        (zipped("content.xml", mimetype="application/vnd.oasis.opendocument.text"), "odt"),
        (zipped("content.xml", mimetype="application/vnd.oasis.opendocument.spreadsheet"), "ods"),
        (zipped("content.xml", mimetype="application/vnd.oasis.opendocument.presentation-template"), "odp"),
    ],
)
def test_a_zipped_format_is_known_by_its_parts_whatever_its_name(content, expected):
    assert detect(content, "report.zip") == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (zipped("a.txt"), "zip archive, whatever its name says: unpack it"),
        (zipped("META-INF/MANIFEST.MF"), "is a program"),
        (zipped("Index/Document.iwa"), "Apple Pages, Numbers or Keynote; export it"),
        (zipped("word/document.xml")[:60], "damaged zip, docx"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "damaged doc, xls, ppt or msg"),
        (b"MZ\x90\0\x03\0\0\0", "Windows program"),
        (b"\x7fELF\x02\x01\x01\0\0", "program"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "gzip archive, whatever its name says: unpack it"),
        (b"Rar!\x1a\x07\0", "rar archive"),
        (b"SQLite format 3\0\x01\x02\x03", "SQLite database, whatever its name says: export its tables as csv"),
        (b"\0\0\0\x18ftypmp42\0\0", "video or sound file"),
        (b"%!PS-Adobe-3.0\n", "PostScript is not supported; send a PDF"),
        (random.Random(7).randbytes(1024), "neither text nor a known format"),
        (bytes(range(256)) * 20, "neither text nor a known format"),
    ],
)
def test_what_is_no_document_is_refused_by_what_it_is(content, reason):
    with pytest.raises(Unreadable, match=reason):
        detect(content, "contract.txt")


def test_people_are_told_what_is_supported():
    with pytest.raises(Unreadable) as caught:
        detect(bytes(range(256)) * 20)
    assert SUPPORTED in str(caught.value)
    assert all(name in SUPPORTED for name in ("PDF", "docx", "pptx", "xlsx", "csv", "EPUB", "eml", "msg", "RTF"))


def test_a_character_that_is_cut_by_the_sample_does_not_matter():
    assert detect(("a" + "é" * 60_000).encode(), "a.txt") == "txt"


NAMES = ["", "a.txt", "a.pdf", "a.docx", "a.html", "a.json", "a.csv", "a.eml", "a.py", "a.xyz"]


@given(st.binary(max_size=2000), st.sampled_from(NAMES))
def test_any_bytes_are_a_known_format_or_refused(content, filename):
    try:
        kind = detect(content, filename)
    except Unreadable:
        return
    assert kind.isalnum()
