"""Paragraph styles of a Word document: which are headings. Read once; the library searches all of them each time."""

import re
from dataclasses import dataclass, field
from typing import Any

from docx.oxml.ns import qn

_HEADING = re.compile(r"(?:heading|título|titulo|encabezado|überschrift|titre)\s*([1-9])", re.I)
_TITLES = {"title", "título", "puesto", "titel", "titre"}


@dataclass(frozen=True)
class Style:
    """`level` is 1 for a title, 2 for Heading 1 and so on, 0 for text."""

    name: str = ""
    level: int = 0

    @property
    def title(self) -> bool:
        """Whether it is that of the document's title."""
        return self.name.lower() in _TITLES


@dataclass
class Styles:
    """All paragraph styles by their ids; a style of one's own has the level of what it is based on."""

    elements: dict[str, Any]
    default: str
    _known: dict[str, Style] = field(default_factory=dict[str, Style])

    @classmethod
    def of(cls, document: Any) -> "Styles":
        """Reads the definitions."""
        found = document.styles.element.findall(qn("w:style"))
        own = [one for one in found if one.get(qn("w:type")) in (None, "paragraph")]
        default = next((one.get(qn("w:styleId")) or "" for one in own if one.get(qn("w:default")) in ("1", "true")), "")
        return cls({one.get(qn("w:styleId")) or "": one for one in own}, default)

    def key(self, paragraph: Any) -> str:
        """The id of the style of a `w:p`."""
        named = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
        key = named.get(qn("w:val")) if named is not None else None
        return key if key in self.elements else self.default

    def style(self, paragraph: Any) -> Style:
        """The style of a `w:p`; the outline level of the paragraph itself comes first."""
        key = self.key(paragraph)
        if key not in self._known:
            self._known[key] = Style(_named(self.elements.get(key)), self._level(key))
        known = self._known[key]
        own = _outline_level(paragraph)
        return Style(known.name, own) if own else known

    def _level(self, key: str) -> int:
        for _ in range(10):
            element = self.elements.get(key)
            if element is None:
                return 0
            name = _named(element)
            if name.lower() in _TITLES:
                return 1
            if found := _HEADING.match(name):
                return min(int(found[1]) + 1, 8)
            if level := _outline_level(element):
                return level
            based = element.find(qn("w:basedOn"))
            key = (based.get(qn("w:val")) or "") if based is not None else ""
        return 0


def _named(element: Any) -> str:
    name = element.find(qn("w:name")) if element is not None else None
    return (name.get(qn("w:val")) or "") if name is not None else ""


def _outline_level(element: Any) -> int:
    outline = element.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
    value = outline.get(qn("w:val")) if outline is not None else None
    return int(value) + 2 if value and value.isdecimal() and int(value) < 6 else 0
