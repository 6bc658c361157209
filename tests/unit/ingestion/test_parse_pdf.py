import pytest
from fpdf import FPDF

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse_pdf import parse_pdf


class Contract(FPDF):
    def header(self):
        self.set_font("helvetica", size=8)
        self.cell(0, 8, f"Contract CT-2025-0001 - page {self.page_no()}", new_x="LMARGIN", new_y="NEXT")

    def footer(self):
        self.set_y(-15)
        self.set_font("helvetica", size=8)
        self.cell(0, 8, f"{self.page_no()} / 3")

    def line_of(self, text, size=11, style=""):
        self.set_font("helvetica", style, size)
        self.cell(0, 9, text, new_x="LMARGIN", new_y="NEXT")

    def body(self, text):
        self.set_font("helvetica", size=11)
        self.multi_cell(0, 6, text, new_x="LMARGIN", new_y="NEXT")
        self.ln(3)


@pytest.fixture(scope="module")
def parsed():
    pdf = Contract()
    pdf.add_page()
    pdf.line_of("Supply contract", 18, "B")
    pdf.line_of("8. Delivery", 12, "B")
    pdf.body(
        "8.3 Late delivery. If the provider deliv-\ners late, "
        + "a penalty of 2 % a month applies to the price, " * 4
        + "and no more."
    )
    pdf.body("The client may also terminate the contract, and keep what was delivered before without any further cost.")
    pdf.add_page()
    pdf.line_of("Prices", 12, "B")
    pdf.set_font("helvetica", size=11)
    with pdf.table() as table:
        for texts in (("Item", "Price"), ("Bolt", "2.50"), ("Nut", "1.75")):
            row = table.row()
            for text in texts:
                row.cell(text)
    pdf.body("All prices are without tax.")
    pdf.add_page()
    pdf.body("- first item\n- second item")
    return parse_pdf(bytes(pdf.output()))


def test_title_and_pages_are_found(parsed):
    assert (parsed.title, parsed.page_count) == ("Supply contract", 3)


def test_headers_footers_and_page_numbers_are_dropped(parsed):
    text = "\n".join(block.text for block in parsed.blocks)
    assert "CT-2025-0001" not in text
    assert "/ 3" not in text


def test_a_clause_is_one_paragraph_with_its_number_and_its_place(parsed):
    clause = next(block for block in parsed.blocks if block.text.startswith("8.3"))
    assert clause.section == ("Supply contract", "8. Delivery", "8.3 Late delivery")
    assert "If the provider delivers late" in clause.text
    assert clause.text.endswith("and no more.")
    assert "\n" not in clause.text
    assert clause.page == 1


def test_a_paragraph_below_a_clause_belongs_to_it(parsed):
    paragraph = next(block for block in parsed.blocks if block.text.startswith("The client"))
    assert paragraph.section[-1] == "8.3 Late delivery"


def test_a_ruled_table_is_a_table_in_its_place(parsed):
    kinds = [(block.kind, block.text, block.page) for block in parsed.blocks if block.page == 2]
    assert kinds == [
        ("heading", "Prices", 2),
        ("table", "| Item | Price |\n| --- | --- |\n| Bolt | 2.50 |\n| Nut | 1.75 |", 2),
        ("paragraph", "All prices are without tax.", 2),
    ]


def test_list_items_are_blocks_of_their_own(parsed):
    assert [block.text for block in parsed.blocks if block.kind == "list"] == ["- first item", "- second item"]


def test_headings_at_the_top_of_pages_are_no_headers():
    pdf = FPDF()
    for number in (1, 3, 4):
        pdf.add_page()
        pdf.set_font("helvetica", size=11)
        for text in ("Confidential", f"Clause {number}", f"Text of page {pdf.page_no()}."):
            pdf.cell(0, 8, text, new_x="LMARGIN", new_y="NEXT")
    texts = [block.text for block in parse_pdf(bytes(pdf.output())).blocks]
    assert [text for text in texts if text.startswith("Clause")] == ["Clause 1", "Clause 3", "Clause 4"]
    assert "Confidential" not in "".join(texts)


def test_a_title_that_later_pages_repeat_in_small_type_stays_once():
    pdf = FPDF()
    for size in (16, 8):
        pdf.add_page()
        for text, points in (("Contract CT-2025-0018", size), ("The price is fixed for the whole term.", 10)):
            pdf.set_font("helvetica", size=points)
            pdf.cell(0, 10, text, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(40)
    blocks = parse_pdf(bytes(pdf.output())).blocks
    assert [(block.kind, block.text, block.page) for block in blocks if "Contract" in block.text] == [
        ("heading", "Contract CT-2025-0018", 1)
    ]


def empty():
    pdf = FPDF()
    pdf.add_page()
    return bytes(pdf.output())


def encrypted():
    pdf = FPDF()
    pdf.set_encryption(owner_password="o", user_password="u")
    pdf.add_page()
    return bytes(pdf.output())


@pytest.mark.parametrize(
    ("content", "words"),
    [(empty(), "no text on its 1 page"), (encrypted(), "encrypted"), (b"%PDF-1.4\n%%EOF", "damaged")],
)
def test_a_file_without_readable_text_says_why(content, words):
    with pytest.raises(Unreadable, match=words):
        parse_pdf(content)
