"""OpenDocument texts and presentations to blocks; spreadsheets are read by parse_sheets."""

from typing import Any

from services.ingestion.parsed import Outline, Parsed, Unreadable, table
from services.ingestion.parsers.archives import Archive, attribute, name_of
from services.ingestion.parsers.clauses import add_paragraph
from services.ingestion.parsers.text_encoding import clean
from services.ingestion.parsers.titles import own_language, own_title

_DEEPEST = 100
_MOST_SPACES = 100
_MOST_REPEATED = 50
# Deleted text of tracked changes, and what only programs read.
_SKIPPED = {"tracked-changes", "annotation-end", "forms", "sequence-decls", "variable-decls", "event-listeners"}


def parse_odf(content: bytes, format: str) -> Parsed:
    """Blocks of an odt or odp. Raises Unreadable when it is damaged, encrypted or a bomb."""
    archive = Archive(content, format)
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable(f"The {format} is encrypted; send a copy without a password.")
    root = archive.xml("content.xml")
    body = next((one for one in root.iter() if name_of(one) == "body"), None) if root is not None else None
    if root is None or body is None or len(body) == 0:
        raise Unreadable(f"The {format} is damaged: its content cannot be read.")
    styles = [one for one in root.iter() if name_of(one) == "style"]
    walk = _Walk({attribute(one, "name"): attribute(one, "parent-style-name") for one in styles})
    walk.all(body[0], 0)
    meta = archive.xml("meta.xml")
    properties = {name_of(one): one.text or "" for one in meta.iter()} if meta is not None else {}
    return Parsed(
        title=own_title(properties.get("title")) or walk.title,
        language=own_language(properties.get("language")),
        blocks=tuple(walk.outline.blocks),
        page_count=walk.page,
    )


class _Walk:
    def __init__(self, parents: dict[str, str]) -> None:
        self.outline = Outline()
        self._parents = parents
        self.title = ""
        self.page = 0

    def all(self, element: Any, depth: int, listed: int = 0) -> None:
        if depth > _DEEPEST:
            raise Unreadable("The document is nested too deeply.")
        for child in element:
            match name_of(child):
                case "h":
                    level = attribute(child, "outline-level")
                    self.outline.heading(1 + int(level) if level.isdecimal() else 2, _text(child))
                case "p":
                    self._paragraph(child, depth, listed)
                case "list":
                    self.all(child, depth + 1, listed + 1)
                case "table":
                    self.outline.add(table(_rows(child)), "table", self.page)
                case "page":
                    self._slide(child, depth)
                case "notes":
                    text = " ".join(text for one in child.iter() if name_of(one) == "p" and (text := _text(one)))
                    self.outline.add(f"Speaker notes: {text}" if text else "", page=self.page)
                case name if name and name not in _SKIPPED:
                    self.all(child, depth + 1, listed)
                case _:
                    pass

    def _paragraph(self, element: Any, depth: int, listed: int) -> None:
        text = _text(element)
        style = attribute(element, "style-name")
        if text and "Title" in (style, self._parents.get(style)):
            self.title = self.title or " ".join(text.split())
            self.outline.heading(1, text)
        elif text and listed:
            self.outline.add(f"{'  ' * (listed - 1)}- {text}", "list", self.page)
        elif text:
            add_paragraph(self.outline, text, self.page)
        # Text boxes and footnotes hang in the paragraph that they belong to.
        for one in element.iter():
            if name_of(one) in ("text-box", "note-body") and one is not element:
                self.all(one, depth + 1)

    def _slide(self, element: Any, depth: int) -> None:
        self.page += 1
        titled = next((one for one in element if attribute(one, "class") == "title"), None)
        title = (
            " ".join(" ".join(_text(one) for one in titled.iter() if name_of(one) == "p").split())
            if titled is not None
            else ""
        )
        if title:
            self.outline.heading(1, title, self.page)
            self.title = self.title or title
        else:
            self.outline.open(1, f"Slide {self.page}")
        if titled is not None:
            element.remove(titled)
        self.all(element, depth + 1)


def _text(element: Any) -> str:
    """Text of a paragraph without its footnotes, comments and text boxes."""
    parts: list[str] = []
    _collect(element, parts)
    return clean("".join(parts)).strip()


def _collect(element: Any, parts: list[str]) -> None:
    parts.append(element.text or "")
    for child in element:
        match name_of(child):
            case "tab":
                parts.append("\t")
            case "line-break":
                parts.append("\n")
            case "s":
                count = attribute(child, "c")
                parts.append(" " * (min(int(count), _MOST_SPACES) if count.isdecimal() else 1))
            case "note" | "annotation" | "text-box" | "page-number" | "":
                pass
            case _:
                _collect(child, parts)
        parts.append(child.tail or "")


def _rows(element: Any) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in element.iter():
        if name_of(row) != "table-row":
            continue
        cells: list[str] = []
        for cell in row:
            if name_of(cell) in ("table-cell", "covered-table-cell"):
                text = " ".join(text for one in cell.iter() if name_of(one) in ("p", "h") and (text := _text(one)))
                count = attribute(cell, "number-columns-repeated")
                cells += [text] * (min(int(count), _MOST_REPEATED) if count.isdecimal() else 1)
        rows.append(cells)
    return rows
