import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.formats import clean, decode, decode_html, detect
from services.ingestion.parsed import Unreadable


@pytest.mark.parametrize(
    ("content", "filename", "content_type", "expected"),
    [
        (b"%PDF-1.7 ...", "notes.txt", "text/plain", "pdf"),
        (b"\n\n%PDF-1.4", "", "", "pdf"),
        (b"<!DOCTYPE html><html>", "page.txt", "", "html"),
        (b"\xef\xbb\xbf<!-- saved --><html lang='es'>", "", "", "html"),
        (b"# Title", "README.md", "", "md"),
        (b"# Title", "", "text/markdown; charset=utf-8", "md"),
        (b"<p>fragment</p>", "a.html", "", "html"),
        (b"plain words", "contract.pdf", "application/pdf", "txt"),
        (b"plain words", "", "", "txt"),
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


def test_a_docx_is_known_by_its_parts():
    assert detect(zipped("[Content_Types].xml", "word/document.xml"), "report.zip") == "docx"


@pytest.mark.parametrize(
    ("content", "filename", "name"),
    [
        (zipped("xl/workbook.xml"), "a.docx", "xlsx"),
        (zipped("ppt/slides/slide1.xml"), "a.docx", "pptx"),
        (zipped("OEBPS/a.xhtml", mimetype="application/epub+zip"), "a.epub", "epub"),
        (zipped("a.txt"), "a.zip", "zip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "a.doc", "old Office"),
        (b"{\\rtf1 text}", "a.rtf", "rtf"),
        (b"a,b\n1,2\n", "a.csv", "csv"),
    ],
)
def test_other_formats_are_named_in_the_refusal(content, filename, name):
    with pytest.raises(Unreadable, match=rf"{name}.* is not supported yet; send txt, md, html, pdf or docx"):
        detect(content, filename)


def test_noise_is_no_text():
    with pytest.raises(Unreadable, match="neither text nor a known format"):
        detect(bytes(range(256)) * 20, "a.txt")


def test_a_character_that_is_cut_by_the_sample_does_not_matter():
    assert detect(("a" + "é" * 60_000).encode(), "a.txt") == "txt"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_the_usual_encodings_are_read(encoding):
    assert decode("Año: 100 € – «cláusula»".encode(encoding)) == "Año: 100 € – «cláusula»"


def test_a_page_is_read_in_the_encoding_that_it_declares():
    page = "<html><head><meta charset='iso-8859-2'></head>źródło</html>"
    assert "źródło" in decode_html(page.encode("iso-8859-2"))
    assert "año" in decode_html("<meta charset='nonsense'>año".encode())


def test_a_decomposed_accent_becomes_one_character():
    assert clean("cla\u0301usula") == "cláusula"


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_can_be_stored_anywhere(text):
    cleaned = clean(text)
    assert "\0" not in cleaned
    assert "\r" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert clean(cleaned) == cleaned


@given(st.binary(max_size=2000), st.sampled_from(["", "a.txt", "a.pdf", "a.docx", "a.html"]))
def test_any_bytes_are_a_known_format_or_refused(content, filename):
    try:
        kind = detect(content, filename)
    except Unreadable:
        return
    assert kind in {"txt", "md", "html", "pdf", "docx"}
