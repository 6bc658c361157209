import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse import parse
from services.ingestion.parsers.parse_rtf import parse_rtf

OFFICE = Path(__file__).parents[2] / "data/documents/office"
TABLE = (
    "| Pieza | Unidad | Precio |\n| --- | --- | --- |\n| Tornillo M6 inoxidable |  | 2,50 € |\n| Arandela | caja |  |"
)


def content_of(name):
    content = (OFFICE / name).read_bytes()
    return gzip.decompress(content) if name.endswith(".gz") else content


@pytest.mark.parametrize("name", ["contrato.doc", "contrato.odt", "contrato.rtf"])
def test_texts_of_all_word_processors_keep_headings_tables_and_order(name):
    parsed = parse(content_of(name), name)
    texts = [block.text for block in parsed.blocks]
    assert texts[:5] == [
        "Acuerdo marco de suministro",
        "Precio",
        "El precio es de 1.200 € más IVA, según el anexo «B».",
        TABLE,
        "Después de la tabla.",
    ]
    assert [block.section[-1] for block in parsed.blocks[2:4]] == ["Precio", "Precio"]
    assert parsed.blocks[3].kind == "table"
    assert [text.removeprefix("- ") for text in texts[5:9]] == ["uno", "dos", "Plazo", "Treinta días."]


@pytest.mark.parametrize("name", ["plan.ppt.gz", "plan.odp"])
def test_slides_of_other_programs_keep_pages_titles_and_notes(name):
    parsed = parse(content_of(name), "plan")
    assert (parsed.title, parsed.page_count) == ("Plan 2026", 3)
    seen = {block.text.removeprefix("- "): block.page for block in parsed.blocks}
    assert seen["Primer punto"] == seen["Segundo punto"] == 1
    assert seen["Speaker notes: Decir que el año fue bueno"] == 1
    assert seen["Caja de texto"] == 2
    assert seen["Solo texto"] == 3
    assert "Ventas" in str(seen)


def test_a_real_doc_has_its_clauses():
    parsed = parse(content_of("ingest_dataprep.doc"), "a.doc")
    assert parsed.blocks[0].text == "Understanding Cloud Computing: A Comprehensive Overview"
    assert ("2. Types of Cloud Services",) in {block.section for block in parsed.blocks}


def test_a_real_rtf_is_read():
    parsed = parse(content_of("test.rtf"), "a.rtf")
    assert parsed.blocks[0].text == "This is a Sample RTF File"


def test_rtf_in_other_code_pages_and_with_pictures_is_read():
    picture = b"{\\pict\\pngblip " + b"89504e47" * 20_000 + b"}"
    parsed = parse_rtf(b"{\\rtf1\\ansi\\ansicpg1251{\\info{\\title Contract}}" + picture + b"\\'cf\\'f0\\'e8\\par b}")
    assert parsed.title == "Contract"
    assert [block.text for block in parsed.blocks] == ["При", "b"]


def test_many_unfinished_rows_of_an_rtf_cost_no_time():
    assert parse_rtf(b"{\\rtf1 text " + b"\\trowd x " * 20_000 + b"}").blocks


@pytest.mark.parametrize("name", ["contrato.doc", "plan.ppt.gz", "contrato.odt", "plan.odp"])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(name, data):
    content = bytearray(content_of(name))
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(512, len(content) - 1), st.integers(0, 255)), min_size=1, max_size=20)
    ):
        content[place] = byte
    keep = data.draw(st.sampled_from([len(content), len(content) // 2, 700]))
    try:
        parse(bytes(content[:keep]), name)
    except Unreadable:
        pass
