"""Cuts passages into the clauses that they hold: numbered ones, list items and rows of tables."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.understudy.evidence import Passage, clean
from services.understudy.words import language, stems, tokens

_WORD = r"cl[áa]usula|clause|art[íi]culo|article|art\.|secci[óo]n|section|apartado|estipulaci[óo]n|§"
# A number at the start of a line, cell, item or sentence, with or without the word; without dots it needs the word.
_NUMBER = re.compile(
    r"(?:(?P<line>\A|(?<=\n))|(?<=[.;:] ))[ \t]*(?:>[ \t]*)?(?:\|[ \t]*)?"
    r"(?:(?P<hashes>#+[ \t]*)|[-*•·–—+][ \t]+|\d{1,2}[.)][ \t]+(?=(?:\*\*)?(?:" + _WORD + r")))?(?:\*\*|__)?[(\[]?"
    r"(?:(?P<word>" + _WORD + r")\s*)?"
    r"(?P<number>\d{1,2}(?:\.\d{1,2}){1,3}|(?(word)\d{1,3}|(?!)))(?!\d|[.,]\d)"
    r"(?P<close>\.?[ªº]?[.):\]]*(?:\*\*|__)?[.:]?(?:[ \t]*\|)?(?:[ \t]*[-–—:])?)[ \t\n]+"
    r"(?=[\"“«(¿*]*(?P<first>[^\W\d_]))",
    re.IGNORECASE,
)
# Items that carry no number.
_ITEM = re.compile(r"^[ \t]*(?:[-*•·–—+][ \t]+|\|[ \t]*)(?=[^\s|:-])", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t]*(?::?-{2,}:?)?[ \t]*$", re.MULTILINE)
_HEADER = re.compile(r"^[ \t]*\|[^\n]*\|[ \t]*\n(?=[ \t]*\|?[ \t]*:?-{2,})", re.MULTILINE)
_SECTION_NUMBER = re.compile(
    r"(?:^|> |\b(?:cl[áa]usula|clause|art[íi]culo|article|secci[óo]n|section)\s+)(\d{1,2}(?:\.\d{1,2})*)\b", re.I
)
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_CODE_OR_YEAR = re.compile(r"\b[A-Z]+(?:-\d+)+\b|\b(?:19|20)\d\d\b")
_MIN_WORDS = 3


@dataclass(frozen=True)
class Clause:
    """A piece of a passage. `number` is empty where the text gives none."""

    number: str
    heading: str
    text: str
    passage: Passage
    language: str
    words: frozenset[str]
    figures: frozenset[str]


def clauses(passages: Sequence[Passage]) -> list[Clause]:
    """The clauses of passages; what has no number of its own takes that of its section, if it has one."""
    return [one for passage in passages for one in _clauses(passage)]


@lru_cache(maxsize=1024)
def _clauses(passage: Passage) -> tuple[Clause, ...]:
    text = _RULE.sub("", _HEADER.sub("", clean(passage.text)))
    spoken = language(text)
    section = _SECTION_NUMBER.search(passage.section)
    cuts = [(one.start(), one.end(), one["number"]) for one in _NUMBER.finditer(text) if _opens(one)]
    numbered = {start for start, _, _ in cuts}
    cuts += [(one.start(), one.end(), "") for one in _ITEM.finditer(text) if one.start() not in numbered]
    cuts.sort()
    pieces = [("", text[: cuts[0][0]] if cuts else text)]
    for index, (_, end, number) in enumerate(cuts):
        following = cuts[index + 1][0] if index + 1 < len(cuts) else len(text)
        pieces.append((number, text[end:following]))
    inherited = section[1] if section else ""
    heading = _bare(passage.section.rsplit(" > ", 1)[-1])
    found = [
        _clause(number or inherited, piece, passage, spoken)
        for number, piece in pieces
        if _says(piece) and _bare(piece) != heading
    ]
    return tuple(one for one in found if len(one.words) >= _MIN_WORDS)


def _opens(match: re.Match[str]) -> bool:
    """Whether a number is a clause's: inside a line, or with nothing that sets it apart, a capital must follow."""
    apart = match["word"] or match["hashes"] or (match["line"] is not None and match["close"])
    return bool(apart) or match["first"].isupper()


def _says(piece: str) -> bool:
    """What only introduces the clauses after it is none itself."""
    return bool(piece.strip()) and not piece.rstrip().endswith(":")


def _bare(text: str) -> str:
    return " ".join(tokens(text.strip("#*_ \n")))


def _clause(number: str, text: str, passage: Passage, spoken: str) -> Clause:
    text = _plain(text)
    words = frozenset(one for one in stems(text) if not one[0].isdigit())
    return Clause(number, passage.section, text, passage, spoken, words, figures(text))


def _plain(text: str) -> str:
    """Without the marks of tables and emphasis."""
    lines = (line.strip().strip("|").strip() for line in text.strip().split("\n"))
    return re.sub(r"[ \t]*\|[ \t]*", ": ", "\n".join(lines)).replace("**", "").replace("__", "").strip()


def figures(text: str) -> frozenset[str]:
    """Numbers as one writes them in either language; years and codes say nothing of a clause."""
    return frozenset(one.replace(",", ".") for one in _FIGURE.findall(_CODE_OR_YEAR.sub(" ", text)))
