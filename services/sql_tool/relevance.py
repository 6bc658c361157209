"""Which tables and columns a question speaks of: BM25 over names, descriptions and values, in Spanish and English.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with one weight for each field.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]

from services.sql_tool.hints import folded

# Questions are in either language whatever that of the schema, so a word has both stems and either may meet.
_STEMMERS: tuple[Any, ...] = tuple(
    snowballstemmer.stemmer(language)  # pyright: ignore[reportUnknownMemberType]
    for language in ("spanish", "english")
)
_K1, _B = 1.2, 0.3
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Cognates have long beginnings in common, such as contrato and contract, but are weaker evidence than equal stems.
_PREFIX, _PREFIX_SHARE, _COGNATE = 5, 0.6, 0.5
_STOP_WORDS = frozenset(
    """
    a al algun alguna an and are as at be by cada como con cual cuales cuando cuanta cuantas cuanto cuantos de del
    desde did do does donde each el ella en entre es esta estan este esto for from fue fueron ha haber had han has
    hasta have hay he her him his how i id ids in is it its la las le les lo los many mas me mi more most much muy
    my no nos not nuestra nuestro nuestros of on or our para per pero por que quien quienes se ser she si sido sin
    sobre son su sus than that the their them then there they this to todo todos un una unas uno unos was we were
    what when where which who whom whose with y ya you your
    """.split()
)


@dataclass(frozen=True)
class Words:
    """What is said of a table: `fields` are texts with their weights, `columns` the texts of each column."""

    fields: Sequence[tuple[float, str]]
    columns: Mapping[str, str]


@lru_cache(maxsize=50_000)
def _stems(word: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stemmer.stemWord(word) for stemmer in _STEMMERS))


def terms(text: str) -> list[tuple[str, ...]]:
    """The stems of each word that tells something; a word has one or two."""
    return [_stems(word) for word in folded(_CAMEL.sub(" ", text)).split() if len(word) > 1 and word not in _STOP_WORDS]


class Index:
    """Made once for each version of a schema; answers in a millisecond or so."""

    def __init__(self, tables: Sequence[Words]) -> None:
        self._postings: dict[str, dict[int, float]] = defaultdict(dict)
        self._columns = [
            {name: {stem for stems in terms(text) for stem in stems} for name, text in table.columns.items()}
            for table in tables
        ]
        lengths: list[float] = []
        for at, table in enumerate(tables):
            weights: dict[str, float] = defaultdict(float)
            for weight, text in table.fields:
                for stems in terms(text):
                    for stem in stems:
                        weights[stem] += weight
            lengths.append(sum(weights.values()))
            for stem, weight in weights.items():
                self._postings[stem][at] = weight
        average = sum(lengths) / len(lengths) if lengths else 1
        self._norms = [_K1 * (1 - _B + _B * length / (average or 1)) for length in lengths]
        self._by_prefix: dict[str, list[str]] = defaultdict(list)
        for stem in self._postings:
            self._by_prefix[stem[:_PREFIX]].append(stem)

    def scores(self, question: str) -> list[float]:
        """One score a table, 0 where no word of the question is said of it."""
        scores = [0.0] * len(self._norms)
        for stems in dict.fromkeys(terms(question)):
            best: dict[int, float] = {}
            for stem, share in self._matches(stems):
                postings = self._postings[stem]
                rarity = share * math.log(1 + (len(scores) - len(postings) + 0.5) / (len(postings) + 0.5))
                for at, weight in postings.items():
                    score = rarity * weight * (_K1 + 1) / (weight + self._norms[at])
                    best[at] = max(best.get(at, 0), score)
            for at, score in best.items():
                scores[at] += score
        return scores

    def stems(self, question: str) -> frozenset[str]:
        """What of the question occurs anywhere in the schema."""
        return frozenset(stem for stems in terms(question) for stem, _ in self._matches(stems))

    def columns(self, table: int, stems: frozenset[str]) -> set[str]:
        """The columns of a table of which the question says something; `stems` are the question's."""
        return {name for name, own in self._columns[table].items() if own & stems}

    def _matches(self, stems: tuple[str, ...]) -> list[tuple[str, float]]:
        known = [(stem, 1.0) for stem in stems if stem in self._postings]
        if known:
            return known
        return [
            (other, _COGNATE)
            for stem in stems
            for other in self._by_prefix.get(stem[:_PREFIX], ())
            if len(stem) >= _PREFIX and _shared(stem, other) >= _PREFIX_SHARE * max(len(stem), len(other))
        ]


def _shared(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
