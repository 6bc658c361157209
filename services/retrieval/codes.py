"""What a query names exactly: identifiers such as CT-2025-0091, and clause numbers such as "cláusula 8.3".

Who writes one wants the passages that hold just that one, whatever else is alike.
"""

import re
from dataclasses import dataclass

from services.retrieval.store import StoredChunk

# Letters first, then digits, in one word or in parts: amounts, years, dates and clause numbers are no identifiers.
_CODE = re.compile(r"(?<![\w-])[A-Za-z]{1,10}(?:[-_/.]?\d+)+(?:[-_/]\w+)*(?![\w-])")
# "err 4032" for ERR-4032: a word and a number of three digits or more that is no year.
_SPACED = re.compile(r"(?<![\w-])([A-Za-z]{2,6})\s(\d{3,8})(?![\w%€$.,-]*\d)(?![\w-])")
_MIN_CHARS = 4
_NO_PREFIX = frozenset(
    "de en el la los las al del con por para son hay año year in of at the on to for by are is and or y o a n no num"
    " que qué than over sobre más unos unas from since desde hasta until about usd eur euro euros top page pág".split()
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_CLAUSE = re.compile(
    r"(?:cl[aá]usulas?|art[ií]culos?|art\.|secci[oó]n|apartado|anexo|clauses?|articles?|sections?|paragraph|annex|§)"
    r"\s*(?:n[º°o.]{0,2}\s*)?(\d{1,3}(?:\.\d{1,3}){0,4})(?![\w%€$])(?!\.\d)",
    re.I,
)
_REFERENCE = (
    r"(?:cl[aá]usula|art[ií]culo|art\.|secci[oó]n|apartado|anexo|clause|article|section|paragraph|annex|§)"
    r"\s*(?:n[º°o.]{0,2}\s*)?"
)


@dataclass(frozen=True)
class Named:
    """Identifiers, case-folded, and clause numbers of a query."""

    codes: frozenset[str]
    clauses: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.codes or self.clauses)


def named(query: str) -> Named:
    """What the query names."""
    codes = {found.casefold() for found in _CODE.findall(query) if len(found) >= _MIN_CHARS}
    for word, number in _SPACED.findall(query):
        if word.casefold() not in _NO_PREFIX and not _YEAR.fullmatch(number):
            codes.add(f"{word}-{number}".casefold())
    return Named(frozenset(codes), frozenset(_CLAUSE.findall(query)))


def held(wanted: Named, chunk: StoredChunk) -> tuple[int, int]:
    """How many of the identifiers a passage, or its document, holds as whole words; how well it answers to the clauses.

    A clause counts 2 where the passage is it, and 1 where the passage mentions it.
    """
    if not wanted:
        return 0, 0
    text = " ".join((chunk.document_id, chunk.title, chunk.section, chunk.text, *chunk.metadata.values())).casefold()
    codes = sum(_whole(code, text) for code in wanted.codes)
    return codes, sum(_clause(number, chunk) for number in wanted.clauses)


def _whole(code: str, text: str) -> bool:
    parts = re.split(r"[-_/. ]", code)
    if not all(part in text for part in parts):
        return False
    # ERR-4032, ERR 4032 and ERR4032 are one code; in the middle of another one it is none.
    return re.search(rf"(?<![\w-]){'[-_/. ]?'.join(map(re.escape, parts))}(?![\w-])", text) is not None


def _clause(number: str, chunk: StoredChunk) -> int:
    alone = rf"(?<![\d.]){re.escape(number)}(?!\.?\d)"
    if any(re.search(alone, heading) for heading in chunk.section.split(" > ")):
        return 2
    if re.search(rf"^\W*(?:{_REFERENCE})?{alone}\W", chunk.text, re.I | re.M):
        return 2
    return int(re.search(_REFERENCE + alone, chunk.text, re.I) is not None)
