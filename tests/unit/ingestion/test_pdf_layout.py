"""What a page looks like must come out as what it means: columns, tables, paragraphs, headings."""

import contextlib
import io
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from fpdf import FPDF
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse_pdf import parse_pdf

DOCUMENTS = Path(__file__).parents[2] / "data" / "documents" / "pdf"


def new(size=10):
    pdf = FPDF(unit="pt", format="A4")
    pdf.add_page()
    pdf.set_font("helvetica", size=size)
    return pdf


def blocks(pdf):
    return parse_pdf(bytes(pdf.output())).blocks


def texts(pdf, kind=None):
    return [block.text for block in blocks(pdf) if kind in (None, block.kind)]


def tables(name):
    return [block.text for block in parse_pdf((DOCUMENTS / name).read_bytes()).blocks if block.kind == "table"]


LEFT = [
    "The supplier delivers the goods to the",
    "central store within the agreed term and",
    "bears all cost of carriage until then.",
    "A delay must be announced to the buyer",
    "in writing before the term is over.",
]
RIGHT = [
    "The buyer examines the goods without",
    "delay and reports each visible defect",
    "within eight days after the delivery.",
    "Hidden defects are reported as soon as",
    "they have been found by the buyer.",
]


@pytest.mark.parametrize("shift", [0, 5])
def test_columns_are_read_one_after_the_other_even_where_the_file_goes_line_by_line(shift):
    pdf = new()
    pdf.text(60, 80, "A title that runs over the whole width of the page and both of its columns, as titles do")
    for number, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        pdf.text(60, 120 + 13 * number, left)
        pdf.text(310, 120 + shift + 13 * number, right)
    pdf.text(60, 230, "A line below the columns that runs over the whole width of the page, as some lines do.")
    text = "\n".join(texts(pdf))
    flat = " ".join(text.split())
    assert " ".join(LEFT) in flat
    assert " ".join(RIGHT) in flat
    places = [flat.index(part) for part in ("A title", "The supplier", "The buyer examines", "A line below")]
    assert places == sorted(places)


def test_a_sentence_that_goes_on_in_the_next_column_is_not_broken():
    pdf = new()
    for number, (left, right) in enumerate(
        zip([*LEFT[:4], "in writing and without any delay before"], RIGHT, strict=True)
    ):
        pdf.text(60, 120 + 13 * number, left)
        pdf.text(310, 120 + 13 * number, right[0].lower() + right[1:])
    assert "without any delay before the buyer examines the goods without delay and" in texts(pdf)[-1]


def test_a_table_without_lines_is_a_table():
    pdf = new()
    pdf.text(60, 80, "Prices of the year, without tax and without the cost of carriage to the store:")
    for y, row in enumerate(
        [("Code", "Part", "Price"), ("A-1", "Bolt", "2.50"), ("A-2", "Nut", "1.75"), ("A-3", "", "9.00")]
    ):
        for x, cell in zip((60, 160, 300), row, strict=True):
            if cell:
                pdf.text(x, 100 + 14 * y, cell)
    (table,) = texts(pdf, "table")
    assert table == "\n".join(
        [
            "| Code | Part | Price |",
            "| --- | --- | --- |",
            "| A-1 | Bolt | 2.50 |",
            "| A-2 | Nut | 1.75 |",
            "| A-3 |  | 9.00 |",
        ]
    )


def test_a_sparse_table_keeps_its_cells_in_their_columns():
    first, second = tables("SPARSE-2024-INV-1234_borderless_table.pdf")
    assert "| SKU-8847 | A-12 | 450 |  |  |  |\n|  | B-07 |  | 289 | -23 |  |" in first
    assert "|  |  |  | 935 | +15 | OK |" in first
    assert "| SKU-4563 | Software | $120.00 | $18,720.00 |  | Critical |" in second


def test_tables_of_a_form_are_told_apart_and_keep_the_notes_between_their_rows():
    found = tables("movie-theater-booking-2024.pdf")
    assert any("| Order / Rev: | 2024-12-5678 | Cinema: | Downtown Multiplex |" in table for table in found)
    shows = next(table for table in found if table.startswith("| Ln | Screen |"))
    assert "| 2 | SCR-2 | 12/20/24 | 12/31/24 | Winter Wonderland | Standard |" in shows
    assert "(Runtime: 142 min)" in shows


def test_numbers_that_hang_before_paragraphs_make_no_table():
    content = (DOCUMENTS / "masterformat_partial_numbering.pdf").read_bytes()
    paragraphs = [block.text for block in parse_pdf(content).blocks if block.kind == "paragraph"]
    assert any(text.startswith(".1 The intent of this Request") and "following project:" in text for text in paragraphs)


@pytest.mark.parametrize("repeats", [True, False])
def test_a_table_over_several_pages_has_its_head_on_each(repeats):
    pdf = new()
    pdf.set_auto_page_break(True, 60)
    with pdf.table(first_row_as_headings=True, repeat_headings=1 if repeats else 0) as table:
        for number in range(90):
            row = table.row()
            for cell in ("Item", "Price") if number == 0 else (f"Part number {number}", f"{number}.50"):
                row.cell(cell)
    found = [block for block in blocks(pdf) if block.kind == "table"]
    assert [block.page for block in found] == [1, 2, 3]
    assert all(block.text.startswith("| Item | Price |\n") for block in found)
    assert sum(block.text.count("Part number") for block in found) == 89


def test_a_new_table_on_the_next_page_keeps_its_own_head():
    pdf = new()
    for heads in (("Item", "Price"), ("Name", "City")):
        if heads[0] == "Name":
            pdf.add_page()
        with pdf.table() as table:
            for cells in (heads, ("a", "b"), ("c", "d")):
                row = table.row()
                for cell in cells:
                    row.cell(cell)
    assert [text.split("\n")[0] for text in texts(pdf, "table")] == ["| Item | Price |", "| Name | City |"]


def test_a_merged_cell_does_not_shift_the_others():
    pdf = new()
    with pdf.table() as table:
        row = table.row()
        row.cell("Both", colspan=2)
        row.cell("Third")
        row = table.row()
        for cell in ("one", "two", "three"):
            row.cell(cell)
    assert texts(pdf, "table") == ["| Both |  | Third |\n| --- | --- | --- |\n| one | two | three |"]


def test_a_frame_around_text_is_no_table():
    pdf = new()
    pdf.rect(50, 60, 400, 60)
    pdf.text(60, 90, "Only a warning in a frame.")
    assert [(block.kind, block.text) for block in blocks(pdf)] == [("paragraph", "Only a warning in a frame.")]


def test_short_lines_stay_lines_and_full_ones_flow():
    pdf = new()
    for y, line in enumerate(("Acme Limited", "123 Main Street", "Springfield")):
        pdf.text(60, 80 + 12 * y, line)
    pdf.set_xy(60, 140)
    pdf.multi_cell(
        300, 12, "This sentence is long enough to be broken over two lines, and the break means nothing at all."
    )
    address, sentence = texts(pdf)
    assert address.split("\n") == ["Acme Limited", "123 Main Street", "Springfield"]
    assert "\n" not in sentence


def test_a_word_broken_at_the_end_of_a_line_is_put_together():
    pdf = new()
    for y, line in enumerate(
        (
            "The customer may end the contract if the pro-",
            "vider does not deliver the well-known goods or",
            "another well-",
            "known thing.",
        )
    ):
        pdf.text(60, 80 + 12 * y, line)
    text = " ".join(texts(pdf))
    assert "provider does" in text
    assert "another well-known thing" in text


def test_ligatures_and_accents_come_out_as_letters():
    pdf = new()
    pdf.text(60, 80, "contratación, año, España, café")
    assert texts(pdf) == ["contratación, año, España, café"]


def test_rotated_pages_are_read_as_they_are_shown():
    pdf = new()
    with pdf.rotation(90, 300, 300):
        pdf.text(300, 300, "First line when the page is shown.")
        pdf.text(300, 312, "Second line when the page is shown.")
    document = pdfium.PdfDocument(bytes(pdf.output()))
    document[0].set_rotation(90)
    turned = io.BytesIO()
    document.save(turned)
    document.close()
    (block,) = parse_pdf(turned.getvalue()).blocks
    assert block.text == "First line when the page is shown. Second line when the page is shown."


def test_text_at_the_side_of_the_page_does_not_break_the_lines_beside_it():
    pdf = new()
    with pdf.rotation(90, 30, 500):
        pdf.text(30, 500, "Printed on recycled paper")
    pdf.set_xy(60, 80)
    pdf.multi_cell(300, 12, "A paragraph that is long enough to run over two lines at least, and a little more.")
    body, side = texts(pdf)
    assert body.startswith("A paragraph that is long enough to run over two lines")
    assert side == "Printed on recycled paper"


def test_headings_by_size_make_a_path():
    pdf = new()
    for y, (size, text) in enumerate(
        ((20, "Handbook"), (14, "Travel"), (10, "Trains are booked early."), (14, "Meals"), (10, "Lunch is free."))
    ):
        pdf.set_font("helvetica", size=size)
        pdf.text(60, 80 + 40 * y, text)
    assert [block.section for block in blocks(pdf) if block.kind == "paragraph"] == [
        ("Handbook", "Travel"),
        ("Handbook", "Meals"),
    ]


@pytest.mark.parametrize("title", ["Microsoft Word - draft.doc", "Untitled", "SCAN_0001", "report.indd"])
def test_what_a_program_left_as_title_is_none(title):
    pdf = new()
    pdf.set_title(title)
    pdf.text(60, 80, "Some text.")
    assert parse_pdf(bytes(pdf.output())).title == ""


def test_an_owner_protected_file_is_read():
    assert parse_pdf((DOCUMENTS / "owner_protected.pdf").read_bytes()).blocks[0].text == "Hello World"


def test_pages_are_counted_from_one():
    parsed = parse_pdf((DOCUMENTS / "multipage.pdf").read_bytes())
    assert [(block.text, block.page) for block in parsed.blocks] == [("Page one content", 1), ("Page two content", 2)]


@pytest.mark.parametrize(
    ("name", "words"), [("encrypted.pdf", "encrypted; send a copy without a password"), ("empty.pdf", "no text")]
)
def test_a_file_that_cannot_be_read_says_what_to_do(name, words):
    with pytest.raises(Unreadable, match=words):
        parse_pdf((DOCUMENTS / name).read_bytes())


def test_a_file_without_pages_says_so():
    objects = "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    with pytest.raises(Unreadable, match=r"no pages|damaged"):
        parse_pdf(f"%PDF-1.4\n{objects}trailer<</Root 1 0 R>>".encode())


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.95])
def test_a_file_that_was_cut_off_is_refused_or_read_as_far_as_it_goes(share):
    pdf = new()
    for number in range(20):
        pdf.text(60, 80 + 12 * number, f"Line {number} of the text.")
    content = bytes(pdf.output())
    with contextlib.suppress(Unreadable):
        assert parse_pdf(content[: int(share * len(content))]).blocks


# What a PDF is made of: cross references, objects, fonts, pages.
_PARTS = st.sampled_from(
    b"1 0 obj|endobj|<<|>>|/Type/Page|/Type/Pages|/Kids[|]|/Count 9999999|stream\n|endstream|xref\n0 3\n"
    b"|trailer|/Root 1 0 R|startxref\n9\n%%EOF|/Filter/FlateDecode|BT /F1 12 Tf|(text) Tj|ET"
    b"|/MediaBox[0 0 1e9 1e9]|/Rotate 45|\x00\xff|\n".split(b"|")
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=2000), st.lists(_PARTS, max_size=60).map(b" ".join)))
def test_any_bytes_after_the_mark_are_refused_or_read(content):
    with contextlib.suppress(Unreadable):
        assert parse_pdf(b"%PDF-1.7\n" + content).blocks


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(DOCUMENTS.glob("*.pdf"))), st.data())
def test_real_files_with_flipped_bytes_are_refused_or_read(path, data):
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=20)):
        content[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Unreadable):
        assert parse_pdf(bytes(content)).blocks
