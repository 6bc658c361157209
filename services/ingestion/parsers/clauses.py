"""Finds the numbered clauses of contracts and policies ("7. Precio", "Cláusula 8.3 …", "8.3 Late delivery")."""

import re
from dataclasses import dataclass

from services.ingestion.parsed import Outline

# Below any heading that the format itself marks.
_FIRST_LEVEL = 10
_LONGEST_LINE, _LONGEST_TITLE, _MOST_WORDS = 100, 60, 8

_WORDS = (
    r"cl[aá]usula|art[ií]culo|secci[oó]n|cap[ií]tulo|t[ií]tulo|anexo|ap[eé]ndice|disposici[oó]n"
    r"|clause|article|section|chapter|annex|appendix|schedule|exhibit"
)
_ORDINALS = (
    r"primer[oa]|segund[oa]|tercer[oa]|cuart[oa]|quint[oa]|sext[oa]|s[eé]ptim[oa]|octav[oa]|noven[oa]|d[eé]cim[oa]"
    r"(?:[ -]?(?:primer[oa]|segund[oa]|tercer[oa]|cuart[oa]|quint[oa]))?|und[eé]cim[oa]|duod[eé]cim[oa]"
)
_NAMED = re.compile(
    rf"(?:{_WORDS})\s+(?P<number>\d{{1,3}}(?:\.\d{{1,3}})*|[ivxlc]+\b|[a-z]\b|{_ORDINALS})(?=[\s.:)ºª–—-]|$)", re.I
)
# "PRIMERA.- Objeto": only in capitals, because "Primera. Segunda." is ordinary prose.
_ORDINAL = re.compile(rf"(?:{_ORDINALS.upper().replace('[EÉ]', '[EÉ]')})\s*[.:–—-]")
# One number needs its dot ("7. Precio"): "10 March" is no clause. Several need none ("8.3 Late delivery").
_NUMBERED = re.compile(r"(?P<number>\d{1,2}(?:\.\d{1,2}){1,5}\.?|\d{1,2}[.)])[-–—]?\s+(?=[A-ZÁÉÍÓÚÑÜ¿¡\"“«(])")
_HEADING_END = re.compile(r"(?<=[^\W\d])[.:](?:[-–—]|\s|$)|\s[–—-]\s|\n")


@dataclass(frozen=True)
class Clause:
    """`depth` is 1 for "7.", 2 for "8.3"; `whole` says that the line is nothing but the heading."""

    depth: int
    heading: str
    whole: bool


def clause(text: str) -> Clause | None:
    """The clause that `text` begins, or None for ordinary text."""
    named = _NAMED.match(text) if text[:1].isupper() else None
    found = _NUMBERED.match(text) or named or _ORDINAL.match(text)
    if found is None:
        return None
    groups = found.groupdict()
    number = (groups.get("number") or "").rstrip(".)")
    depth = number.count(".") + 1 if number[:1].isdigit() else 1
    head, rest = _split_heading(text, found.end())
    return Clause(depth, head, whole=not rest.strip() and not text.rstrip().endswith((";", ",")))


def _split_heading(text: str, start: int) -> tuple[str, str]:
    """The number with its short title, and what follows. A clause without a title is called by its number alone."""
    rest = text[start:].lstrip(" .:)ºª–—-")
    offset = len(text) - len(rest)
    end = _HEADING_END.search(rest)
    cut = offset + (end.start() if end else len(rest))
    title, after = " ".join(text[:cut].split()), text[cut:].lstrip(" .:–—-\n")
    # A line of its own may be long. A sentence that other sentences follow is no title.
    alone = not after and not text.rstrip().endswith(".")
    if len(title) <= (_LONGEST_LINE if alone else _LONGEST_TITLE) and (alone or title.count(" ") <= _MOST_WORDS):
        return title, after
    return " ".join(text[:start].split()).rstrip(" .:)-–—"), rest


def add_paragraph(outline: Outline, text: str, page: int = 0) -> None:
    """Adds a paragraph, as a section of its own where it begins a clause."""
    found = clause(text.lstrip())
    if found is None:
        outline.add(text, page=page)
    elif found.whole:
        outline.open(_FIRST_LEVEL + found.depth, found.heading)
        outline.add(text, "heading", page)
    else:
        outline.open(_FIRST_LEVEL + found.depth, found.heading)
        outline.add(text, page=page)
