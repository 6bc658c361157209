"""Scanned pages, with tesseract and without it. A machine without it runs the half of these that says so."""

import io
import os
import shutil
import stat

import pypdfium2 as pdfium
import pytest
from fpdf import FPDF
from PIL import Image, ImageDraw

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers import ocr
from services.ingestion.parsers.parse_pdf import parse_pdf
from services.ingestion.parsing import Parser

needs_tesseract = pytest.mark.skipif(
    ocr.find() is None, reason="tesseract is not installed (Debian: tesseract-ocr tesseract-ocr-spa)"
)


def picture(lines, size=(1654, 2339)):
    """A page of A4 at 200 dots an inch with the lines on it, as a scanner would make it."""
    text = FPDF(unit="pt", format="A4")
    text.add_page()
    for number, line in enumerate(lines):
        text.set_font("helvetica", size=24 if number == 0 else 12)
        text.text(60, 100 + 40 * number, line)
    document = pdfium.PdfDocument(bytes(text.output()))
    image = document[0].render(scale=200 / 72).to_pil()
    document.close()
    return image.resize(size)


def scan(*pages):
    """A PDF whose pages are pictures where they are lists of lines, and text where they are text."""
    pdf = FPDF(unit="pt", format="A4")
    for page in pages:
        pdf.add_page()
        pdf.set_font("helvetica", size=12)
        if isinstance(page, str):
            pdf.text(60, 100, page)
        else:
            pdf.image(picture(page), x=0, y=0, w=pdf.w, h=pdf.h)
    return bytes(pdf.output())


@pytest.fixture
def without_tesseract(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))


def program(folder, text):
    """A tesseract that only does what `text`, a shell script, says."""
    path = folder / "tesseract"
    path.write_text(f"#!/bin/sh\nif [ $1 = --list-langs ]; then echo List:; echo eng; echo osd; exit; fi\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_scanned_document_without_tesseract_says_that_it_needs_ocr(without_tesseract):
    with pytest.raises(Unreadable, match=r"^needs OCR: .*install tesseract"):
        parse_pdf(scan(["Invoice 4711"], ["Second page"]))


def test_scanned_pages_between_others_are_named(without_tesseract):
    parsed = parse_pdf(scan("A page of text.", ["Scanned"], ["Scanned"], "Another page.", ["Scanned"]))
    assert [block.page for block in parsed.blocks] == [1, 4]
    assert parsed.warnings == ("Pages 2–3, 5 are scanned and not read: tesseract is not installed (OCR).",)


def test_a_blank_page_needs_no_ocr(without_tesseract):
    pdf = FPDF()
    pdf.add_page()
    pdf.add_page()
    pdf.set_font("helvetica", size=12)
    pdf.text(60, 100, "Text on the second page.")
    assert parse_pdf(bytes(pdf.output())).warnings == ()


def test_a_picture_beside_text_needs_no_ocr(without_tesseract):
    pdf = FPDF(unit="pt", format="A4")
    pdf.add_page()
    pdf.set_font("helvetica", size=12)
    pdf.text(60, 100, "The building of the year, seen from the park on a morning in May.")
    pdf.image(Image.new("RGB", (300, 300)), x=60, y=200, w=300)
    assert parse_pdf(bytes(pdf.output())).warnings == ()


def test_a_tesseract_that_fails_leaves_the_page_unread(tmp_path, monkeypatch):
    program(tmp_path, "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    parsed = parse_pdf(scan("A page of text.", ["Scanned"]))
    assert parsed.warnings == ("Page 2 is scanned and not read: there was no time for it (OCR).",)


def test_a_tesseract_that_hangs_is_ended_at_the_deadline(tmp_path):
    program(tmp_path, "exec sleep 60")
    slow = ocr.Tesseract(str(tmp_path / "tesseract"), "eng", deadline=ocr.time.monotonic() + 0.5)
    assert slow.read(b"P5 1 1 255\n\0") is None
    assert slow.read(b"P5 1 1 255\n\0") is None


def test_without_an_installed_language_there_is_no_ocr(tmp_path, monkeypatch):
    path = tmp_path / "tesseract"
    path.write_text("#!/bin/sh\necho List:\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert ocr.find() is None


@needs_tesseract
def test_a_scanned_page_is_read():
    parsed = parse_pdf(scan(["Invoice 4711", "The price is due on the first of May."]))
    assert parsed.title == "Invoice 4711"
    assert [(block.kind, block.text, block.page) for block in parsed.blocks] == [
        ("heading", "Invoice 4711", 1),
        ("paragraph", "The price is due on the first of May.", 1),
    ]
    assert parsed.warnings == ()


@needs_tesseract
@pytest.mark.skipif("spa" not in (ocr.find() or ocr.Tesseract("", "", 0)).languages, reason="no Spanish for tesseract")
def test_spanish_letters_are_read():
    parsed = parse_pdf(scan(["Garantía", "La contratación del año que viene se decidirá mañana."]))
    assert "contratación del año que viene" in parsed.blocks[-1].text


@needs_tesseract
def test_columns_of_a_scanned_table_stay_columns():
    image = picture(["Prices"])
    draw = ImageDraw.Draw(image)
    for y, row in enumerate((("Code", "Part", "Price"), ("A-1", "Bolt", "2.50"), ("A-2", "Screw", "1.75"))):
        for x, cell in enumerate(row):
            draw.text((160 + 450 * x, 700 + 80 * y), cell, fill="black", font_size=44)
    pdf = FPDF(unit="pt", format="A4")
    pdf.add_page()
    pdf.image(image, x=0, y=0, w=pdf.w, h=pdf.h)
    table = next(block.text for block in parse_pdf(bytes(pdf.output())).blocks if block.kind == "table")
    assert table.split("\n")[0] == "| Code | Part | Price |"
    assert "| A-2 | Screw | 1.75 |" in table


@needs_tesseract
def test_paragraphs_of_a_picture_are_read():
    content = io.BytesIO()
    picture(["Notice", "The lift is out of order."]).save(content, "PNG")
    found = ocr.find()
    assert found is not None
    assert found.read_paragraphs(content.getvalue()) == ["Notice", "The lift is out of order."]


@needs_tesseract
async def test_tesseract_runs_within_the_limits_of_a_parse(tmp_path):
    path = tmp_path / "scan.pdf"
    path.write_bytes(scan(["Invoice 4711", "The price is due on the first of May."]))
    parser = Parser(512 * 2**20, 100)
    try:
        parsed = await parser.parse(path, "scan.pdf", "")
    finally:
        parser.close()
    assert parsed.blocks[-1].text == "The price is due on the first of May."


def test_the_program_is_looked_for_on_the_path():
    assert (ocr.find() is None) == (shutil.which("tesseract") is None)
