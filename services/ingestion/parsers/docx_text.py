"""The text of one Word paragraph: as it reads when all tracked changes are accepted; equations as a line of text."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from docx.oxml.ns import qn

from services.ingestion.parsers.archives import name_of
from services.ingestion.parsers.pictures import description
from services.ingestion.parsers.text_encoding import clean

_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_SIGNS = {
    "tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": "",
    "lastRenderedPageBreak": "",
}  # fmt: skip
# The second rendering of the same thing, text that was deleted or moved away, and properties.
_SKIPPED = {"Fallback", "del", "moveFrom", "pPr", "rPr", "instrText", "delText", "sdtPr", "rt"}


@dataclass
class Line:
    """`boxes` are text boxes in it, `notes`, `comments` and `pictures` the ids of what is referred to, in order."""

    text: str = ""
    boxes: list[Any] = field(default_factory=list[Any])
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    comments: list[str] = field(default_factory=list[str])
    pictures: list[str] = field(default_factory=list[str])


def line(paragraph: Any) -> Line:
    """Reads a `w:p`. Marks each footnote as "[1]" by its id; hidden text is left out."""
    found = Line()
    parts: list[str] = []
    stack: list[Any] = [paragraph]
    while stack:
        element = stack.pop()
        name = name_of(element)
        if _left_out(element, name):
            continue
        if element.tag.startswith(_MATH):
            parts.append(formula(element))
        elif name == "t":
            parts.append(element.text or "")
        elif name in _SIGNS:
            parts.append(_SIGNS[name])
        elif name == "txbxContent":
            found.boxes.append(element)
        elif name in ("footnoteReference", "endnoteReference"):
            number = element.get(qn("w:id")) or ""
            found.notes.append((name.removesuffix("Reference"), number))
            parts.append(f"[{number}]")
        elif name in ("blip", "commentReference"):
            kept, key = (found.pictures, "r:embed") if name == "blip" else (found.comments, "w:id")
            kept.append(element.get(qn(key)) or "")
        else:
            if name in ("drawing", "pict") and (shown := description(element)):
                parts.append(f" [{shown}] ")
            stack.extend(reversed(element))
    found.text = clean("".join(parts))
    return found


def _left_out(element: Any, name: str) -> bool:
    """Comments in the XML, what is not text, and runs that are hidden."""
    if name != "r":
        return not name or name in _SKIPPED
    mark = element.find(f"{qn('w:rPr')}/{qn('w:vanish')}")
    return mark is not None and mark.get(qn("w:val")) not in ("0", "false")


def formula(element: Any, depth: int = 0) -> str:
    """An equation (OMML) in one line: `(a + b)/(2 c)`, `x^2`, `√(y)`."""
    if depth > 60:
        return ""

    def part(name: str) -> str:
        child = element.find(_MATH + name)
        return "".join(formula(one, depth + 1) for one in child) if child is not None else ""

    written = _FORMULAS.get(name_of(element))
    if written is not None:
        return written(part, element)
    if name_of(element) == "t":
        # An invisible sign says that a function is applied.
        return (element.text or "").replace("\u2061", " ")
    if name_of(element).endswith("Pr"):
        return ""
    if name_of(element) == "oMathPara":
        return "; ".join(formula(one, depth + 1) for one in element if name_of(one) == "oMath")
    return "".join(formula(one, depth + 1) for one in element)


Part = Callable[[str], str]


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"


def _delimited(part: Part, element: Any) -> str:
    signs = {"begChr": "(", "endChr": ")", "sepChr": ", "}
    for name in signs:
        found = element.find(f"{_MATH}dPr/{_MATH}{name}")
        signs[name] = found.get(f"{_MATH}val", "") if found is not None else signs[name]
    inner = [formula(one) for one in element if name_of(one) == "e"]
    return signs["begChr"] + signs["sepChr"].join(inner) + signs["endChr"]


def _operator(part: Part, element: Any) -> str:
    found = element.find(f"{_MATH}naryPr/{_MATH}chr")
    sign = found.get(f"{_MATH}val", "∑") if found is not None else "∫"
    below, above = part("sub"), part("sup")
    return sign + (f"_{_grouped(below)}" if below else "") + (f"^{_grouped(above)}" if above else "") + f" {part('e')}"


def _matrix(part: Part, element: Any) -> str:
    rows = [", ".join(formula(cell) for cell in row) for row in element if name_of(row) == "mr"]
    return f"[{'; '.join(rows)}]"


_FORMULAS: dict[str, Callable[[Part, Any], str]] = {
    "f": lambda part, _: f"{_grouped(part('num'))}/{_grouped(part('den'))}",
    "sSup": lambda part, _: f"{_grouped(part('e'))}^{_grouped(part('sup'))}",
    "sSub": lambda part, _: f"{_grouped(part('e'))}_{_grouped(part('sub'))}",
    "sSubSup": lambda part, _: f"{_grouped(part('e'))}_{_grouped(part('sub'))}^{_grouped(part('sup'))}",
    "rad": lambda part, _: (f"root {part('deg')} of " if part("deg") else "√") + f"({part('e')})",
    "func": lambda part, _: f"{part('fName')} {_grouped(part('e'))}",
    "limLow": lambda part, _: f"{part('e')}_{_grouped(part('lim'))}",
    "limUpp": lambda part, _: f"{part('e')}^{_grouped(part('lim'))}",
    "d": _delimited,
    "nary": _operator,
    "m": _matrix,
}
