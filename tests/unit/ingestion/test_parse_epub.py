import io
import zipfile
from pathlib import Path

import pytest

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse import parse

OFFICE = Path(__file__).parents[2] / "data/documents/office"
CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>El manual</dc:title>
<dc:language>es-ES</dc:language></metadata><manifest><item id="n" href="nav.xhtml" properties="nav"/>
<item id="b" href="b%20dos.xhtml"/><item id="a" href="a.xhtml"/><item id="x" href="missing.xhtml"/>
<item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>
<spine><itemref idref="n"/><itemref idref="b"/><itemref idref="a"/>%s</spine></package>"""
CONTENTS = """<ncx><navMap><navPoint><navLabel><text>Capítulo sin título</text></navLabel>
<content src="a.xhtml#top"/></navPoint></navMap></ncx>"""
LOCK = '<encryption><EncryptedData><CipherReference URI="OEBPS/{}"/></EncryptedData></encryption>'


def book(spine="", **parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OEBPS/book.opf", PACKAGE.replace("%s", spine))
        archive.writestr("OEBPS/toc.ncx", CONTENTS)
        archive.writestr("OEBPS/nav.xhtml", "<html><body><a>Contents</a></body></html>")
        archive.writestr("OEBPS/b dos.xhtml", "<html><body><h1>Dos</h1><h2>Uso</h2><p>Texto dos.</p></body></html>")
        archive.writestr("OEBPS/a.xhtml", "<?xml version='1.0'?><html><body><p>Texto uno.</p></body></html>")
        for name, text in parts.items():
            archive.writestr(f"META-INF/{name}.xml", text)
    return file.getvalue()


def test_chapters_come_in_the_order_of_the_spine():
    parsed = parse(book(), "a.epub")
    assert (parsed.title, parsed.language) == ("El manual", "es")
    assert [(block.text, block.section) for block in parsed.blocks] == [
        ("Dos", ("Dos",)),
        ("Uso", ("Dos", "Uso")),
        ("Texto dos.", ("Dos", "Uso")),
        ("Texto uno.", ("Capítulo sin título",)),
    ]


def test_a_missing_chapter_is_said():
    assert "1 chapters of the epub are missing" in parse(book('<itemref idref="x"/>'), "a.epub").warnings[0]


def test_a_protected_book_is_refused_and_protected_fonts_do_not_matter():
    locked = LOCK.format("b%20dos.xhtml") + LOCK.format("a.xhtml")
    with pytest.raises(Unreadable, match="protected against copying"):
        parse(book(encryption=f"<e>{locked}</e>"), "a.epub")
    assert parse(book(encryption=LOCK.format("font.otf")), "a.epub").warnings == ()


def test_a_real_book_is_read():
    parsed = parse((OFFICE / "test.epub").read_bytes(), "a.epub")
    assert (parsed.title, parsed.language) == ("Test EPUB Document", "en")
    assert parsed.blocks[0].text == "Chapter 1: Test Content"


@pytest.mark.parametrize("path", ["../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd"])
def test_a_path_never_leaves_the_archive(path):
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book())) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, part.replace(b'href="a.xhtml"', f'href="{path}"'.encode()))
    assert "root:" not in str(parse(file.getvalue(), "a.epub"))
