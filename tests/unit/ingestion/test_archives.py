import io
import zipfile

import pytest

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.archives import Archive, beside, xml_root
from services.ingestion.parsers.parse import parse
from services.ingestion.parsers.titles import own_language, own_title

FORMATS = [("word/document.xml", "a.docx"), ("ppt/presentation.xml", "a.pptx"), ("xl/workbook.xml", "a.xlsx")]


def zipped(parts, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize(("part", "name"), FORMATS)
def test_a_bomb_of_any_format_is_refused_by_what_it_declares(part, name):
    with pytest.raises(Unreadable, match="zip bomb"):
        parse(zipped({part: b"\0" * 9 * 2**20}), name)


def test_a_bomb_of_many_parts_is_refused():
    with pytest.raises(Unreadable, match="10001 parts; it is refused as a zip bomb"):
        parse(zipped({"word/document.xml": b"", **{f"{n}": b"" for n in range(10_000)}}, zipfile.ZIP_STORED), "a.docx")


@pytest.mark.parametrize(("part", "name"), FORMATS)
def test_an_encrypted_part_is_named_as_such(part, name):
    content = bytearray(zipped({part: b"x"}))
    # The flag in the entry and in the table of contents.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(Unreadable, match="encrypted; send a copy without a password"):
        parse(bytes(content), name)


@pytest.mark.parametrize(("part", "name"), FORMATS)
def test_a_file_that_only_looks_like_office_is_damaged(part, name):
    with pytest.raises(Unreadable, match=r"damaged|no text"):
        parse(zipped({part: b"x"}), name)


def test_a_damaged_part_is_refused():
    content = bytearray(zipped({"a": b"some text that is long enough" * 9}, zipfile.ZIP_STORED))
    content[60] ^= 0xFF
    with pytest.raises(Unreadable, match="a part of it cannot be read"):
        Archive(bytes(content), "docx").read("a")


@pytest.mark.parametrize(
    ("target", "part"),
    [("b.xml", "x/b.xml"), ("../b.xml", "b.xml"), ("../../../etc/passwd", "etc/passwd"), ("/b.xml", "b.xml")],
)
def test_a_path_stays_in_the_archive(target, part):
    assert beside("x/a.xml", target) == part


def test_entities_stay_unexpanded():
    root = xml_root(b'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><d>a&x;b</d>')
    assert "root:" not in "".join(root.itertext())


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("PowerPoint Presentation", ""),
        ("Presentación de PowerPoint", ""),
        ("Untitled", ""),
        ("Microsoft Word - contrato.doc", ""),
        ("Microsoft Word - Contrato marco", "Contrato marco"),
        ("informe.docx", ""),
        ("Slide 1", ""),
        (None, ""),
        ("Política  de\nvacaciones", "Política de vacaciones"),
        ("Presentation of the budget", "Presentation of the budget"),
    ],
)
def test_what_a_program_wrote_is_no_title(title, kept):
    assert own_title(title) == kept


@pytest.mark.parametrize(
    ("code", "kept"), [("es-ES", "es"), ("EN", "en"), ("en_US", "en"), ("español", ""), (None, "")]
)
def test_a_language_is_two_letters(code, kept):
    assert own_language(code) == kept
