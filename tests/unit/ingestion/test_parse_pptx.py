import io
from pathlib import Path

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse import parse
from services.ingestion.parsers.parse_pptx import parse_pptx

OFFICE = Path(__file__).parents[2] / "data/documents/office"


def saved(presentation):
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def plan():
    deck = Presentation()
    deck.core_properties.title = "PowerPoint Presentation"
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Plan 2026"
    first.placeholders[1].text = "Primer punto\nSegundo punto"
    first.notes_slide.notes_text_frame.text = "Decir que el año fue bueno"
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Cifras"
    for text, left, top in (("tercera", 1, 5), ("derecha", 5, 2), ("izquierda", 1, 2)):
        second.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1)).text_frame.text = text
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(Inches(1), Inches(6), Inches(2), Inches(1)).text_frame.text = "en el grupo"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(7), Inches(4), Inches(1)).table
    for row, texts in enumerate((("Mes", "Ventas"), ("Enero", "1|00"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    third = deck.slides.add_slide(deck.slide_layouts[6])
    third.element.set("show", "0")
    numbers = CategoryChartData()
    numbers.categories = ["Norte", "Sur"]
    numbers.add_series("2025", (1.5, None))
    chart = third.shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, 0, 0, Inches(4), Inches(4), numbers).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Ventas por zona"
    return deck


def test_slides_are_pages_and_sections_read_as_people_read():
    parsed = parse_pptx(saved(plan()))
    assert (parsed.title, parsed.page_count) == ("Plan 2026", 3)
    assert [(block.kind, block.text, block.page) for block in parsed.blocks] == [
        ("heading", "Plan 2026", 1),
        ("list", "- Primer punto", 1),
        ("list", "- Segundo punto", 1),
        ("paragraph", "Speaker notes: Decir que el año fue bueno", 1),
        ("heading", "Cifras", 2),
        ("paragraph", "izquierda", 2),
        ("paragraph", "derecha", 2),
        ("paragraph", "tercera", 2),
        ("paragraph", "en el grupo", 2),
        ("table", "| Mes | Ventas |\n| --- | --- |\n| Enero | 1\\|00 |", 2),
        ("paragraph", "Ventas por zona", 3),
        ("table", "|  | 2025 |\n| --- | --- |\n| Norte | 1.5 |\n| Sur |  |", 3),
    ]
    assert [block.section for block in parsed.blocks[-3:]] == [("Cifras",), ("Slide 3",), ("Slide 3",)]
    assert parsed.warnings == ("Slide 3 is hidden in the presentation; it was read.",)


def test_a_group_without_a_place_does_not_lose_its_texts():
    assert any(block.text == "en el grupo" for block in parse_pptx(saved(plan())).blocks)


def test_charts_and_notes_of_real_files_are_read():
    chart = parse_pptx((OFFICE / "cht-charts.pptx").read_bytes()).blocks[0]
    assert chart.text.startswith("|  | Series 1 | Series 2 | Series 3 |\n| --- |")
    assert "| Category 1 | 4.3 | 2.4 | 2 |" in chart.text
    notes = parse_pptx((OFFICE / "prs-notes.pptx").read_bytes())
    assert notes.blocks[0].text == "Speaker notes: Notes"


def test_a_presentation_without_slides_holds_no_text():
    with pytest.raises(Unreadable, match="holds no text"):
        parse((OFFICE / "no-slides.pptx").read_bytes(), "a.pptx")


def test_a_missing_part_does_not_lose_the_rest():
    parsed = parse((OFFICE / "missing_rels_item.pptx").read_bytes(), "a.pptx")
    assert parsed.blocks[0].text == "Presentation Title Text"


@pytest.mark.parametrize("keep", [200, 5_000, 20_000])
def test_a_damaged_file_is_refused(keep):
    with pytest.raises(Unreadable):
        parse(saved(plan())[:keep], "a.pptx")
