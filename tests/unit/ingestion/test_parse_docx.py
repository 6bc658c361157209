import io
import zipfile

import docx
import pytest
from docx.oxml import parse_xml

from services.ingestion.parse import parse
from services.ingestion.parse_docx import parse_docx
from services.ingestion.parsed import Unreadable

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def saved(document):
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def test_headings_lists_and_tables_come_in_order():
    document = docx.Document()
    document.add_heading("Acuerdo marco", 0)
    document.add_heading("Condiciones", 1)
    document.add_paragraph("8.3 Retraso. Un 2 % al mes.")
    table = document.add_table(rows=2, cols=3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "Pieza"
    table.cell(0, 2).text = "Precio"
    for column, text in enumerate(("Tornillo", "M6", "2,50")):
        table.cell(1, column).text = text
    document.add_paragraph("uno", style="List Bullet")
    parsed = parse_docx(saved(document))
    assert parsed.title == "Acuerdo marco"
    assert [(block.kind, block.text) for block in parsed.blocks] == [
        ("heading", "Acuerdo marco"),
        ("heading", "Condiciones"),
        ("paragraph", "8.3 Retraso. Un 2 % al mes."),
        ("table", "| Pieza | Precio |  |\n| --- | --- | --- |\n| Tornillo | M6 | 2,50 |"),
        ("list", "- uno"),
    ]
    assert parsed.blocks[2].section == ("Acuerdo marco", "Condiciones", "8.3 Retraso")


def test_links_and_insertions_are_read_and_deletions_are_not():
    document = docx.Document()
    paragraph = document.add_paragraph("see ")
    for xml in (
        f"<w:hyperlink {W}><w:r><w:t>the annex</w:t></w:r></w:hyperlink>",
        f"<w:ins {W}><w:r><w:t xml:space='preserve'> now</w:t></w:r></w:ins>",
        f"<w:del {W}><w:r><w:delText>never</w:delText></w:r></w:del>",
    ):
        paragraph._p.append(parse_xml(xml))
    assert [block.text for block in parse_docx(saved(document)).blocks] == ["see the annex now"]


def test_numbers_that_word_only_shows_are_kept_with_their_text():
    document = docx.Document()
    numbering = document.part.numbering_part.element
    levels = "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="{text}"/></w:lvl>'
        for n, text in enumerate(("%1.", "%1.%2"))
    )
    numbering.insert(0, parse_xml(f'<w:abstractNum {W} w:abstractNumId="77">{levels}</w:abstractNum>'))
    numbering.append(parse_xml(f'<w:num {W} w:numId="77"><w:abstractNumId w:val="77"/></w:num>'))
    for level, text in ((0, "Objeto"), (1, "Alcance"), (0, "Precio"), (1, "Revisión"), (1, "Pago")):
        paragraph = document.add_paragraph(text)
        properties = paragraph._p.get_or_add_pPr()
        properties.append(parse_xml(f'<w:numPr {W}><w:ilvl w:val="{level}"/><w:numId w:val="77"/></w:numPr>'))
    blocks = parse_docx(saved(document)).blocks
    assert [block.text for block in blocks] == ["1. Objeto", "1.1 Alcance", "2. Precio", "2.1 Revisión", "2.2 Pago"]
    assert blocks[4].section == ("2. Precio", "2.2 Pago")


def test_a_bomb_is_refused_by_what_it_declares():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "")
        archive.writestr("word/document.xml", b"\0" * 64 * 2**20)
    with pytest.raises(Unreadable, match="zip bomb"):
        parse_docx(file.getvalue())


@pytest.mark.parametrize("keep", [0, 200, 5_000])
def test_a_damaged_file_is_refused(keep):
    content = saved(docx.Document())
    with pytest.raises(Unreadable):
        parse(content[:keep], "a.docx")


def test_entities_are_not_expanded():
    document = docx.Document()
    document.add_paragraph("plain")
    content = saved(document)
    source, target = io.BytesIO(content), io.BytesIO()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "word/document.xml":
                part = part.replace(
                    b"standalone='yes'?>", b"standalone='yes'?>\n<!DOCTYPE d [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>"
                )
                part = part.replace(b"plain", b"&x;")
            new.writestr(name, part)
    try:
        parsed = parse_docx(target.getvalue())
    except Unreadable:
        return
    assert "root:" not in str(parsed)
