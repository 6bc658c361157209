"""Numbers that Word shows but does not store: "7.", "8.3", "a)" of automatically numbered paragraphs."""

from dataclasses import dataclass, field
from typing import Any

from docx.oxml.ns import qn

_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


@dataclass(frozen=True)
class _Level:
    format: str
    text: str
    start: int


@dataclass
class Numbering:
    """Counts the numbered paragraphs of one document, in reading order."""

    levels: dict[str, dict[int, _Level]]
    abstract: dict[str, str]
    styles: dict[str, tuple[str, int]]
    _counts: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])

    @classmethod
    def of(cls, document: Any) -> "Numbering":
        """Reads the definitions; a document without any numbers nothing."""
        try:
            root = document.part.numbering_part.element
        except (KeyError, NotImplementedError, AttributeError):
            return cls({}, {}, {})
        levels = {
            _value(one, "w:abstractNumId", own=True): {
                int(_value(level, "w:ilvl", own=True) or 0): _Level(
                    _value(level, "w:numFmt") or "decimal", _value(level, "w:lvlText"), _number(level, "w:start", 1)
                )
                for level in one.findall(qn("w:lvl"))
            }
            for one in root.findall(qn("w:abstractNum"))
        }
        abstract = {
            _value(one, "w:numId", own=True): _value(one, "w:abstractNumId") for one in root.findall(qn("w:num"))
        }
        styles: dict[str, tuple[str, int]] = {}
        for style in document.styles.element.findall(qn("w:style")):
            properties = style.find(f"{qn('w:pPr')}/{qn('w:numPr')}")
            if properties is not None and (number := _value(properties, "w:numId")):
                styles[_value(style, "w:styleId", own=True)] = number, _number(properties, "w:ilvl", 0)
        return cls(levels, abstract, styles)

    def next(self, paragraph: Any, style: str) -> str:
        """What Word shows before this `w:p` of the style with the id `style`, such as "8.3"; a bullet is "•".

        Empty when it is not numbered.
        """
        number, depth = self._of(paragraph, style)
        kind = self.abstract.get(number, "")
        levels = self.levels.get(kind, {})
        if depth not in levels:
            return ""
        counts = self._counts.setdefault(kind, {})
        counts[depth] = counts.get(depth, levels[depth].start - 1) + 1
        for deeper in [one for one in counts if one > depth]:
            del counts[deeper]
        if levels[depth].format in ("bullet", "none"):
            return "•" if levels[depth].format == "bullet" else ""
        shown = levels[depth].text
        for one, level in levels.items():
            if f"%{one + 1}" in shown:
                value = counts.setdefault(one, level.start)
                shown = shown.replace(f"%{one + 1}", _written(value, level.format))
        return shown.strip()

    def _of(self, paragraph: Any, style: str) -> tuple[str, int]:
        properties = paragraph.find(f"{qn('w:pPr')}/{qn('w:numPr')}")
        number, depth = self.styles.get(style, ("", 0))
        if properties is not None:
            number = _value(properties, "w:numId") or number
            depth = _number(properties, "w:ilvl", depth)
        return number, depth


def _value(element: Any, name: str, *, own: bool = False) -> str:
    """`w:val` of the child called `name`, or the element's own attribute of that name."""
    if own:
        return element.get(qn(name)) or ""
    child = element.find(qn(name))
    return (child.get(qn("w:val")) or "") if child is not None else ""


def _number(element: Any, name: str, default: int) -> int:
    value = _value(element, name)
    return int(value) if value.lstrip("-").isdecimal() else default


def _written(value: int, format_: str) -> str:
    match format_:
        case "lowerLetter" | "upperLetter":
            letter = chr(ord("a") + (value - 1) % 26) * (1 + (value - 1) // 26)
            return letter if format_ == "lowerLetter" else letter.upper()
        case "lowerRoman" | "upperRoman":
            text = ""
            for size, sign in _ROMAN:
                text += sign * (value // size)
                value %= size
            return text if format_ == "lowerRoman" else text.upper()
        case "decimalZero":
            return f"{value:02}"
        case _:
            return str(value)
