"""DOCX to blocks: headings, paragraphs, lists and tables in the order of the document, notes beside what they note."""

import re
from io import BytesIO
from typing import Any

from docx import Document
from docx.oxml.ns import qn

from services.ingestion.parsed import Block, Outline, Parsed, Unreadable, hidden, table
from services.ingestion.parsers.archives import Archive, name_of, xml_root
from services.ingestion.parsers.clauses import add_paragraph
from services.ingestion.parsers.docx_hidden import unseen
from services.ingestion.parsers.docx_numbers import Numbering
from services.ingestion.parsers.docx_styles import Styles
from services.ingestion.parsers.docx_text import Line, line
from services.ingestion.parsers.pictures import Pictures
from services.ingestion.parsers.titles import own_language, own_title

_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|página|pág|seite|p)\b\.?)?\W*[\divx]*\W*(?:(?:of|de|von|sur)\b)?\W*\d*\W*", re.I
)
_WRAPPERS = {"sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag", "AlternateContent", "Choice"}
_DEEPEST = 40
_MOST_COLUMNS = 1_000
_DAMAGE = (KeyError, ValueError, AttributeError, IndexError, TypeError)


def parse_docx(content: bytes) -> Parsed:
    """Blocks of a Word document. Raises Unreadable when it is damaged, encrypted, or a zip bomb."""
    archive = Archive(content, "docx")
    try:
        document: Any = Document(BytesIO(content))
    except Exception as error:  # python-docx raises KeyError, ValueError, lxml and zip errors on damaged files
        raise Unreadable("The docx is damaged: its main part cannot be read.") from error
    try:
        walk = _Walk(document, Pictures(archive, "docx"))
        walk.body(document.element.body)
        walk.headers()
        properties = document.core_properties
        concealed = hidden((text, 0) for text in unseen(document.element.body))
        title, language = own_title(properties.title), own_language(properties.language)
    except _DAMAGE as error:
        raise Unreadable("The docx is damaged: a part of it cannot be read.") from error
    warnings = walk.pictures.warnings(walk.outline.blocks)
    return Parsed(title or walk.title, language, tuple(walk.outline.blocks), 0, warnings, concealed)


class _Walk:
    def __init__(self, document: Any, pictures: Pictures) -> None:
        self.outline = Outline()
        self.pictures = pictures
        self.title = ""
        self._document = document
        self._numbering = Numbering.of(document)
        self._styles = Styles.of(document)
        self._texts = {
            kind: _texts(document, kind, element)
            for kind, element in (("footnotes", "footnote"), ("endnotes", "endnote"), ("comments", "comment"))
        }

    def body(self, element: Any, depth: int = 0) -> None:
        """Adds what is in a body, a cell or a text box."""
        if depth > _DEEPEST:
            raise Unreadable("The docx is nested too deeply.")
        for child in element:
            match name_of(child):
                case "p":
                    self._paragraph(child, depth)
                case "tbl":
                    lines: list[Line] = []
                    self.outline.add(table(_rows(child, lines, depth)), "table")
                    for one in lines:
                        self._beside(one, depth)
                case name if name in _WRAPPERS:
                    self.body(child, depth + 1)
                case _:
                    pass

    def _paragraph(self, element: Any, depth: int) -> None:
        found = line(element)
        text = found.text.strip()
        self._add(element, text)
        self._beside(found, depth)

    def _add(self, element: Any, text: str) -> None:
        style = self._styles.style(element)
        number = self._numbering.next(element, self._styles.key(element))
        if not text:
            return
        if style.title and not self.title:
            self.title = " ".join(text.split())
        if style.level:
            self.outline.heading(style.level, f"{number} {text}".strip() if number != "•" else text)
        elif number and not number[0].isalnum():
            self.outline.add(f"- {text}", "list")
        elif number:
            add_paragraph(self.outline, f"{number} {text}")
        elif style.name.lower().startswith(("list bullet", "lista con viñetas")):
            self.outline.add(f"- {text}", "list")
        else:
            add_paragraph(self.outline, text)

    def _beside(self, found: Line, depth: int) -> None:
        """Notes, comments, words in pictures and text boxes, after the paragraph that they belong to."""
        for kind, number in found.notes:
            if text := self._texts[kind + "s"].get(number, ""):
                self.outline.add(f"[{number}] {text}")
        for number in found.comments:
            if text := self._texts["comments"].get(number, ""):
                self.outline.add(f"Comment: {text}")
        for reference in found.pictures:
            part = self._document.part.related_parts.get(reference)
            for text in self.pictures.paragraphs(part.blob) if part is not None else ():
                self.outline.add(text)
        for box in found.boxes:
            self.body(box, depth + 1)

    def headers(self) -> None:
        """Adds page headers and footers once, at the end; those that repeat the text or only number pages are none."""
        seen = {" ".join(block.text.split()) for block in self.outline.blocks}
        for relation in self._document.part.rels.values():
            kind = relation.reltype.rpartition("/")[2]
            if kind not in ("header", "footer") or relation.is_external:
                continue
            for paragraph in relation.target_part.element.iter(qn("w:p")):
                text = " ".join(line(paragraph).text.split())
                if text and text not in seen and not _PAGE_NUMBER.fullmatch(text):
                    self.outline.blocks.append(Block(f"Page {kind}: {text}"))
                seen.add(text)


def _texts(document: Any, kind: str, element: str) -> dict[str, str]:
    """Footnotes, endnotes or comments by their ids; comments with who made them."""
    part = next((one.target_part for one in document.part.rels.values() if one.reltype.endswith(f"/{kind}")), None)
    root = xml_root(part.blob) if part is not None else None
    texts: dict[str, str] = {}
    for one in root if root is not None else ():
        if name_of(one) == element and one.get(qn("w:type")) not in ("separator", "continuationSeparator"):
            text = " ".join(" ".join(line(paragraph).text for paragraph in one.iter(qn("w:p"))).split())
            author = one.get(qn("w:author")) if kind == "comments" else None
            texts[one.get(qn("w:id")) or ""] = f"{author}: {text}" if author and text else text
    return texts


def _rows(grid: Any, lines: list[Line], depth: int) -> list[list[str]]:
    """Texts of the cells by columns of the grid; cells that are merged downwards are repeated in each row.

    Appends to `lines` whatever has notes or boxes.
    """
    rows: list[list[str]] = []
    for row in _inner(grid, "tr"):
        before = row.find(f"{qn('w:trPr')}/{qn('w:gridBefore')}")
        cells = [""] * _count(before)
        for cell in _inner(row, "tc"):
            properties = cell.find(qn("w:tcPr"))
            merged = properties.find(qn("w:vMerge")) if properties is not None else None
            span = _count(properties.find(qn("w:gridSpan"))) if properties is not None else 0
            text = _cell_text(cell, lines, depth)
            goes_on = merged is not None and merged.get(qn("w:val")) != "restart"
            if goes_on and rows and len(cells) < len(rows[-1]):
                text = text or rows[-1][len(cells)]
            cells += [text, *[""] * (max(span, 1) - 1)]
        rows.append(cells)
    used = {column for row in rows for column, cell in enumerate(row) if cell}
    return [[cell for column, cell in enumerate(row) if column in used] for row in rows]


def _inner(element: Any, name: str) -> list[Any]:
    """Rows or cells, also those inside content controls."""
    found: list[Any] = []
    for child in element:
        if name_of(child) == name:
            found.append(child)
        elif name_of(child) in _WRAPPERS:
            found += _inner(child, name)
    return found


def _count(element: Any) -> int:
    value = element.get(qn("w:val")) if element is not None else None
    return min(int(value), _MOST_COLUMNS) if value and value.isdecimal() else 0


def _cell_text(cell: Any, lines: list[Line], depth: int) -> str:
    if depth > _DEEPEST:
        raise Unreadable("The docx is nested too deeply.")
    parts: list[str] = []
    for child in cell:
        match name_of(child):
            case "p":
                found = line(child)
                parts.append(found.text)
                lines.append(found)
            case "tbl":
                parts += ["; ".join(" ".join(filter(None, row)) for row in _rows(child, lines, depth + 1))]
            case name if name in _WRAPPERS:
                parts.append(_cell_text(child, lines, depth + 1))
            case _:
                pass
    return " ".join(part for part in parts if part.strip())
