import datetime
import io
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.comments import Comment

from services.ingestion.parsed import Outline, Unreadable
from services.ingestion.parsers import sheets
from services.ingestion.parsers.parse import parse
from services.ingestion.parsers.parse_csv import parse_csv
from services.ingestion.parsers.parse_sheets import parse_workbook, parse_xlsx
from services.ingestion.parsers.sheets import Budget, add_rows, written

OFFICE = Path(__file__).parents[2] / "data/documents/office"


def saved(book):
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def sales():
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Ventas"
    sheet["A1"] = "Ventas por región"
    sheet.append(["Región", "País", "Fecha", "Importe", "IVA", "Total"])
    sheet.append(["Europa", "España", datetime.date(2025, 3, 1), 1200.5, 0.21, 3.0])
    sheet.append([None, "Francia", datetime.datetime(2025, 3, 2, 14, 30), 800, 0.2, 0.1 + 0.2])
    sheet.merge_cells("A3:A4")
    for row in (3, 4):
        sheet.cell(row, 4).number_format = '#,##0.00 "€"'
        sheet.cell(row, 5).number_format = "0%"
    sheet["B3"].comment = Comment("Incluye Canarias", "Ana")
    sheet.append([])
    sheet.append(["Otra", "Tabla"])
    sheet.append([1, True])
    hidden = book.create_sheet("Secreta")
    hidden.sheet_state = "hidden"
    hidden["B2"] = "oculto"
    return book


def test_sheets_are_sections_and_values_are_as_people_see_them():
    parsed = parse_xlsx(saved(sales()))
    assert [(block.kind, block.text) for block in parsed.blocks] == [
        ("heading", "Ventas"),
        ("paragraph", "Ventas por región"),
        (
            "table",
            "| Región | País | Fecha | Importe | IVA | Total |\n| --- | --- | --- | --- | --- | --- |\n"
            "| Europa | España | 2025-03-01 | 1200.50 € | 21 % | 3 |\n"
            "| Europa | Francia | 2025-03-02 14:30:00 | 800 € | 20 % | 0.3 |",
        ),
        ("table", "| Otra | Tabla |\n| --- | --- |\n| 1 | TRUE |"),
        ("heading", "Secreta"),
        ("paragraph", "oculto"),
        ("paragraph", "Comment on B3: Incluye Canarias"),
    ]
    assert parsed.blocks[2].section == ("Ventas",)
    assert parsed.warnings == ('Sheet "Secreta" is hidden in the workbook; it was read.',)


@pytest.mark.parametrize("name", ["ventas.xls", "ventas.ods"])
def test_other_spreadsheets_are_read_alike(name):
    parsed = parse((OFFICE / name).read_bytes(), name)
    assert parsed.blocks[0].text == "Ventas"
    assert "| Europa | España | 2025-03-01 | 1200.5 |" in parsed.blocks[2].text
    assert parsed.warnings == ('Sheet "Secreta" is hidden in the workbook; it was read.',)


def test_a_real_old_workbook_has_a_table_a_sheet():
    parsed = parse((OFFICE / "test.xls").read_bytes(), "wrong.docx")
    assert [block.kind for block in parsed.blocks] == ["table", "heading", "table"]
    assert parsed.blocks[0].text.startswith("| Alpha | Beta | Gamma | Delta |\n| --- | --- | --- | --- |\n| 89 | 82 |")


def test_a_far_away_cell_costs_no_memory():
    book = openpyxl.Workbook()
    book.active["A1"], book.active["C500000"] = "first", "last"
    assert [block.text for block in parse_xlsx(saved(book)).blocks] == ["first", "last"]


def test_what_is_too_long_is_cut_with_a_warning():
    outline, budget = Outline(), Budget()
    add_rows(outline, "Datos", ([str(row), "x"] for row in range(sheets.MOST_ROWS + 10)), budget)
    assert outline.blocks[0].text.count("\n") == sheets.MOST_ROWS
    assert budget.warnings == [
        f'Sheet "Datos" is longer than can be read: only its first {sheets.MOST_ROWS} rows were.'
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.1 + 0.2, "0.3"), (True, "TRUE"), (None, ""), (1e20, "1e+20"), (datetime.time(8, 5), "08:05:00")],
)
def test_values_are_written_without_dust(value, text):
    assert written(value) == text


@pytest.mark.parametrize("keep", [200, 3_000])
def test_a_damaged_workbook_is_refused(keep):
    content = saved(sales())
    with pytest.raises(Unreadable):
        parse(content[:keep], "a.xlsx")
    with pytest.raises(Unreadable, match="damaged"):
        parse_workbook((OFFICE / "ventas.xls").read_bytes()[:keep], "xls")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_of_a_csv_is_told_from_its_rows(separator):
    text = "\n".join(separator.join(row) for row in (("Pieza", "Precio"), ("Tornillo", "2.50"), ("Arandela", "1.00")))
    assert parse_csv(text).blocks[0].text == (
        "| Pieza | Precio |\n| --- | --- |\n| Tornillo | 2.50 |\n| Arandela | 1.00 |"
    )


def test_a_decimal_comma_is_no_separator():
    assert "| Tornillo | 2,50 |" in parse_csv("Pieza;Precio\nTornillo;2,50\nArandela;1,00\n").blocks[0].text
    assert "| a | b |" in parse_csv("sep=;\na;b\n1;2").blocks[0].text


def test_quotes_hold_separators_and_line_ends():
    assert "| x, y | two lines |" in parse_csv('a,b\n"x, y","two\nlines"\n').blocks[0].text


def test_a_japanese_csv_is_read():
    parsed = parse((OFFICE / "test_mskanji.csv").read_bytes(), "a.csv")
    assert "| 髙橋淳 | 35 | 名古屋 |" in parsed.blocks[0].text
    assert parsed.warnings == ("The text is not UTF-8; it was read as cp932.",)


def test_a_text_named_csv_is_read_as_a_text():
    assert [block.kind for block in parse_csv("One sentence.\n\nAnother one.").blocks] == ["paragraph", "paragraph"]


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_text_is_read_as_a_table_without_loss_of_words(text):
    parsed = parse_csv(text)
    seen = "".join(block.text for block in parsed.blocks)
    assert [one for one in text if one.isalpha() and one.isascii()] == [
        one for one in seen if one.isalpha() and one.isascii()
    ] or text.lower().startswith("sep=")
