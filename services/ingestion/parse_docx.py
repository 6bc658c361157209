"""DOCX to blocks: headings, paragraphs, lists and tables in the order of the document."""

import re
import zipfile
from io import BytesIO
from typing import Any

from docx import Document
from docx.oxml.ns import qn
from docx.oxml.table import CT_Tbl
from docx.oxml.text.paragraph import CT_P
from docx.table import Table
from docx.text.paragraph import Paragraph

from services.ingestion import formats
from services.ingestion.clauses import add_paragraph
from services.ingestion.docx_numbers import Numbering
from services.ingestion.parsed import Outline, Parsed, Unreadable, table

_HEADING = re.compile(r"(?:heading|título|titulo|encabezado)\s*([1-9])", re.I)
# A document of this size is a bomb: what is declared is checked before anything is unpacked.
_MOST_UNPACKED_BYTES = 512 * 1024 * 1024
_MOST_PARTS = 10_000
_MOST_RATIO = 200
_SMALL_PART_BYTES = 8 * 1024 * 1024


def parse_docx(content: bytes) -> Parsed:
    """Blocks of a Word document. Raises Unreadable when it is damaged, or unpacks to more than is reasonable."""
    refuse_bomb(content)
    try:
        document: Any = Document(BytesIO(content))
    except Exception as error:  # python-docx raises KeyError, ValueError, lxml and zip errors on damaged files
        raise Unreadable("The docx is damaged: its main part cannot be read.") from error
    walk = _Walk(Numbering.of(document))
    walk.body(document.element.body, document)
    properties = document.core_properties
    title = (properties.title or "").strip()
    if title.lower() in ("", "word document", "untitled"):
        title = walk.title
    language = (properties.language or "")[:2].lower()
    return Parsed(title=formats.clean(title), language=language, blocks=tuple(walk.outline.blocks))


def refuse_bomb(content: bytes) -> None:
    """Raises Unreadable when the archive declares far more than its size makes plausible."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise Unreadable("The docx is damaged: its table of contents cannot be read.") from None
    if any(part.flag_bits & 0x1 for part in parts):
        raise Unreadable("The docx is encrypted; remove its password and send it again.")
    total = sum(part.file_size for part in parts)
    dense = any(
        part.file_size > _SMALL_PART_BYTES and part.file_size > _MOST_RATIO * max(part.compress_size, 1)
        for part in parts
    )
    if len(parts) > _MOST_PARTS or total > _MOST_UNPACKED_BYTES or dense:
        raise Unreadable(f"The docx would unpack to {total // 2**20} MiB; it is refused as a zip bomb.")


class _Walk:
    def __init__(self, numbering: Numbering) -> None:
        self.outline = Outline()
        self.title = ""
        self._numbering = numbering

    def body(self, element: Any, parent: Any) -> None:
        for child in _content(element):
            if isinstance(child, CT_P):
                self._paragraph(Paragraph(child, parent))
            else:
                text = table(_rows(Table(child, parent)))
                self.outline.add(formats.clean(text), "table")

    def _paragraph(self, paragraph: Paragraph) -> None:
        text = formats.clean(_text(paragraph)).strip()
        number = self._numbering.next(paragraph)
        if not text:
            return
        style = (paragraph.style.name or "") if paragraph.style else ""
        level = _level(paragraph, style)
        if style == "Title" and not self.title:
            self.title = text
        if level:
            self.outline.heading(level, f"{number} {text}".strip())
        elif number and not number[0].isalnum():
            self.outline.add(f"- {text}", "list")
        elif number:
            add_paragraph(self.outline, f"{number} {text}")
        elif style.lower().startswith(("list bullet", "lista con viñetas")):
            self.outline.add(f"- {text}", "list")
        else:
            add_paragraph(self.outline, text)


def _level(paragraph: Paragraph, style: str) -> int:
    if style in ("Title", "Título", "Puesto"):
        return 1
    if found := _HEADING.match(style):
        return min(int(found[1]) + 1, 8)
    element: Any = paragraph._p  # pyright: ignore[reportPrivateUsage]
    outline = element.find(f"./{qn('w:pPr')}/{qn('w:outlineLvl')}")
    value = outline.get(qn("w:val")) if outline is not None else None
    return int(value) + 2 if value and value.isdigit() and int(value) < 6 else 0


def _content(element: Any) -> list[CT_P | CT_Tbl]:
    """Paragraphs and tables in order, also those inside content controls."""
    found: list[CT_P | CT_Tbl] = []
    for child in element:
        if isinstance(child, CT_P | CT_Tbl):
            found.append(child)
        elif child.tag in (qn("w:sdt"), qn("w:sdtContent"), qn("w:ins"), qn("w:customXml"), qn("w:smartTag")):
            found += _content(child)
    return found


_TEXT, _TAB, _BREAKS = qn("w:t"), qn("w:tab"), (qn("w:br"), qn("w:cr"))
# The second rendering of the same thing, and text that was deleted.
_SKIPPED = {"{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback", qn("w:del"), qn("w:pPr")}


def _text(paragraph: Paragraph) -> str:
    """Text with links, insertions and text boxes; without deletions, field codes and comments."""
    parts: list[str] = []
    stack: list[Any] = [paragraph._p]  # pyright: ignore[reportPrivateUsage]
    while stack:
        element = stack.pop()
        if element.tag in _SKIPPED:
            continue
        if element.tag == _TEXT:
            parts.append(element.text or "")
        elif element.tag == _TAB:
            parts.append("\t")
        elif element.tag in _BREAKS:
            parts.append("\n")
        stack.extend(reversed(element))
    return "".join(parts)


def _rows(grid: Table) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in grid.rows:
        cells: list[str] = []
        seen: object = None
        for cell in row.cells:
            # A merged cell is given once for each column that it spans.
            if cell._tc is not seen:  # pyright: ignore[reportPrivateUsage]
                cells.append(_cell_text(cell))
            seen = cell._tc  # pyright: ignore[reportPrivateUsage]
        rows.append(cells)
    return rows


def _cell_text(cell: Any) -> str:
    parts: list[str] = []
    for child in _content(cell._tc):  # pyright: ignore[reportPrivateUsage]
        if isinstance(child, CT_P):
            parts.append(_text(Paragraph(child, cell)))
        else:
            parts += [" ".join(row) for row in _rows(Table(child, cell))]
    return " ".join(part for part in parts if part.strip())
