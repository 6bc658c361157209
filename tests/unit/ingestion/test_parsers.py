import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse import parse

MAGIC = [
    b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf1 ", b"<?xml version='1.0'?>",
    b"<html>", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"{", b"[", b"\x1f\x8b", b"From: a\nTo: b\nSubject: c\n\n",
    b"---\n", b"",
]  # fmt: skip
EXTENSIONS = [
    "", "txt", "md", "html", "csv", "tsv", "json", "jsonl", "xml", "rss", "yaml", "eml", "msg", "ipynb", "py", "ts",
    "sql", "toml", "docx", "pptx", "xlsx", "xls", "doc", "ppt", "odt", "ods", "odp", "rtf", "epub",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(MAGIC), st.binary(max_size=400) | st.text(max_size=200).map(str.encode), st.sampled_from(EXTENSIONS)
)
def test_any_bytes_with_any_name_end_in_blocks_or_a_reason(magic, content, extension):
    try:
        parsed = parse(magic + content, f"a.{extension}")
    except Unreadable:
        return
    assert parsed.blocks
    assert all(block.text.strip() for block in parsed.blocks)
    str(parsed).encode()


PARTS = [
    "[Content_Types].xml", "word/document.xml", "ppt/presentation.xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml",
    "mimetype",
    "content.xml", "META-INF/container.xml", "META-INF/manifest.xml", "_rels/.rels", "xl/_rels/workbook.xml.rels",
    "book.opf",
]  # fmt: skip
CONTENTS = st.sampled_from([
    b"", b"<a/>", b"<a><b>x</b></a>", b"\0\xff", b"application/epub+zip", b"application/vnd.oasis.opendocument.text",
    b"application/vnd.oasis.opendocument.spreadsheet", b"<container><rootfile full-path='book.opf'/></container>",
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(PARTS), CONTENTS, max_size=6))
def test_any_archive_ends_in_blocks_or_a_reason(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    try:
        parse(file.getvalue(), "a.docx")
    except Unreadable:
        pass


@pytest.mark.parametrize("content", [b"", b"   ", b"\n\n\n", b"\0\0\0", "\u200b".encode(), "\ufeff \u200b\n".encode()])
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.json", "a.eml", "a.html", "a.py"])
def test_what_is_empty_is_said_to_be(content, name):
    with pytest.raises(Unreadable, match=r"empty|no text"):
        parse(content, name)


def test_a_picture_that_cannot_be_read_is_refused_with_and_without_ocr():
    with pytest.raises(Unreadable, match=r"needs OCR|cannot be read"):
        parse(b"\x89PNG\r\n\x1a\n" + bytes(100), "a.png")


def test_a_file_of_headings_alone_is_read():
    assert [block.text for block in parse(b"# One\n\n# Two\n", "a.md").blocks] == ["One", "Two"]


def test_text_that_decodes_late_is_clean_too():
    parsed = parse(
        b'{"a": "\\ud835\\udc00 area", "b": "bad\\ud800end", "c": "contrataci\\u006f\\u0301n", "d": "x\\u0000y"}',
        "a.json",
    )
    assert parsed.blocks[0].text == "a: \U0001d400 area\nb: badend\nc: contratación\nd: xy"


def test_an_encrypted_office_file_is_named_as_such(tmp_path):
    from tests.unit.ingestion.compound_file import compound_file

    with pytest.raises(Unreadable, match="encrypted; send a copy without a password"):
        parse(compound_file(["EncryptedPackage", "EncryptionInfo"]), "a.docx")
    with pytest.raises(Unreadable, match="old Office program that is not supported"):
        parse(compound_file(["VisioDocument"]), "a.vsd")
