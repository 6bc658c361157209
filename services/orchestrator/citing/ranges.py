"""Tells when the end of a period is taken for its beginning: `starts on 13 September` for `17 June to 13 September`."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from services.orchestrator.citing.arithmetic import is_year
from services.orchestrator.citing.figures import Figure, Kind, figures
from services.runtime.expressions.folding import fold

_BEGINS = re.compile(
    r"\b(?:start(?:s|ed|ing)?|beg[aiu]n(?:s|ning)?|opens?|opened|arranc\w+|empiez\w+|empez\w+|comienz\w+|comenz\w+|inici\w+|abre|abrio|from|desde)\b"
)
_ENDS = re.compile(
    r"\b(?:ends?|ended|finish\w*|clos(?:e|es|ed|ing)|until|till|termin\w+|acab\w+|conclu\w+|cierr\w+|cerro|finaliz\w+|hasta)\b"
)
_FROM = re.compile(r"\b(?:from|between|desde|del?|entre)(?:\s+(?:the|el|las|los))?\s*$")
_TO = re.compile(r"\s*(?:to|until|till|and|al?|hasta|y)(?:\s+(?:the|el|las|los))?\s*")
_OTHER = re.compile(r"\b(?:before|after|by|antes|despues|tras)\b")
_BEFORE_CHARS = 16


def is_other_end(said: str, sentences: Sequence[str]) -> str:
    """The sentence of the source that names a period, of which the answer gives the one end for the other; or empty."""
    folded = fold(said)
    begins, ends = _BEGINS.search(folded), _ENDS.search(folded)
    told = [one for one in figures(said) if _is_point(one)]
    if len(told) != 1 or bool(begins) == bool(ends) or _OTHER.search(folded):
        return ""
    for text in sentences:
        for first, last in _periods(text):
            right, wrong = (first, last) if begins else (last, first)
            if _agree(told[0], wrong) and not _agree(told[0], right):
                return text
    return ""


def _periods(text: str) -> Iterator[tuple[Figure, Figure]]:
    folded = fold(text)
    points = sorted((one for one in figures(text) if _is_point(one)), key=lambda one: one.start)
    for one, other in pairwise(points):
        opened = _FROM.search(folded[max(0, one.start - _BEFORE_CHARS) : one.start])
        if opened and one.kind is other.kind and _TO.fullmatch(folded, one.end, other.start):
            yield one, other


def _is_point(figure: Figure) -> bool:
    return figure.kind in (Kind.DATE, Kind.TIME) or (figure.kind is Kind.NUMBER and is_year(figure))


def _agree(one: Figure, other: Figure) -> bool:
    return one.kind is other.kind and (one.day.agrees(other.day) if one.kind is Kind.DATE else one.value == other.value)
