"""Text of a Word document that its reader does not see: hidden, white on white, or too small to read."""

from collections.abc import Iterator
from typing import Any

from docx.oxml.ns import qn

# In half points; nobody reads type of two points.
_LEAST_HALF_POINTS = 4
_OFF = ("0", "false", "none")
_WHITE = "FFFFFF"


def unseen(body: Any) -> Iterator[str]:
    """The text of each run of such text, in the order of the document."""
    for paragraph in body.iter(qn("w:p")):
        parts: list[str] = []
        for run in paragraph.iter(qn("w:r")):
            if _is_unseen(run, paragraph):
                parts.append("".join(one.text or "" for one in run.iter(qn("w:t"))))
            elif parts:
                yield "".join(parts)
                parts = []
        if parts:
            yield "".join(parts)


def _is_unseen(run: Any, paragraph: Any) -> bool:
    properties = run.find(qn("w:rPr"))
    if properties is None:
        return False
    for name in ("w:vanish", "w:webHidden", "w:specVanish"):
        mark = properties.find(qn(name))
        if mark is not None and mark.get(qn("w:val")) not in _OFF:
            return True
    size = properties.find(qn("w:sz"))
    value = size.get(qn("w:val")) if size is not None else None
    if value and value.isdecimal() and int(value) <= _LEAST_HALF_POINTS:
        return True
    colour = properties.find(qn("w:color"))
    white = colour is not None and (colour.get(qn("w:val")) or "").upper() == _WHITE
    return white and not _is_shaded(run, properties, paragraph)


def _is_shaded(run: Any, properties: Any, paragraph: Any) -> bool:
    """Whether something stands behind the run that is not white: its own, the paragraph's or a cell's shading."""
    if properties.find(qn("w:highlight")) is not None:
        return True
    around = [properties, paragraph.find(qn("w:pPr"))]
    around += [one.find(qn("w:tcPr")) for one in run.iterancestors(qn("w:tc"))]
    # Styles of tables colour their heads, and a text box may lie on anything.
    if any(True for _ in run.iterancestors(qn("w:tbl"), qn("w:txbxContent"))) and len(around) < 3:
        return True
    fills = (one.find(qn("w:shd")) for one in around if one is not None)
    return any((fill.get(qn("w:fill")) or "auto").upper() not in ("AUTO", _WHITE) for fill in fills if fill is not None)
