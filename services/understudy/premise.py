"""What a question takes for granted, and whether the sentence that would answer it says so.

A question such as `why was the pool closed` has an answer only where something closed the pool: the words of the
question may all be there and the premise be false. Each check is of one kind and knows no subject.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from services.runtime.expressions.quantities import quantities
from services.understudy.bounds import goes_for
from services.understudy.glossary import of_one_meaning
from services.understudy.predicate import predicate
from services.understudy.premise_words import (
    ASKED_COUNT,
    ASKS_MONEY,
    ASKS_WHY,
    CAUSE,
    CLAUSE,
    CONTRASTS,
    DENIED,
    EXCEPTED,
    FRAME,
    MONEY,
    NEGATION,
    NO_ORDINAL,
    ORDINALS,
)
from services.understudy.roles import against, roles
from services.understudy.sql_request import shape
from services.understudy.words import alike, content, fold, language, stem, stems, tokens

_ASKS_WHO = re.compile(r"^\W*(?:who|quien(?:es)?)\b")
_ASKS = re.compile(
    r"\b(?:who|whom|whose|what|which|when|where|why|how|que|quien(?:es)?|cual(?:es)?|cuando|a?donde|como|cuant[oa]s?)\b"
)
_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")
_CODE = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w+(?:-\w+)*\b")
# `90-day`.
_COUNTED = re.compile(r"(?<=\d)-(?=[^\W\d_])")
_NOUN = re.compile(r"(?:ment|tion|sion|cion|miento|ance|ence|er|or|ory)s?$")
_VERB = re.compile(r"(?:ed|o|aron|ieron|eron|[ai]d[oa]s?|ght|ld|de|ve|ote|oke|ose|ole)$")
_LEAST_DENIED = 2


@dataclass(frozen=True)
class Said:
    """A statement as it would be quoted, what stands before and after it, and what heads it.

    `language` is `es` or `en`.
    """

    text: str
    before: str = ""
    after: str = ""
    heading: str = ""
    language: str = ""

    @property
    def near(self) -> str:
        """All of it."""
        return "\n".join((self.heading, self.before, self.text, self.after))


@dataclass(frozen=True)
class Lack:
    """What a statement lacks, in the question's words; empty where no word of the question is to blame.

    `contrary`: it says something else instead. `slight`: it may be told in words that are not known.
    """

    words: str = ""
    contrary: bool = False
    slight: bool = False


class Premise:
    """What one question takes for granted."""

    def __init__(self, question: str) -> None:
        """Reads the question."""
        self._question, self._folded, self._spoken = question, fold(question), language(question)
        self._predicate = predicate(question, self._spoken)
        self._roles = roles(question, self._predicate, self._spoken)
        # Why, and who did it, is asked of a deed: without it there is nothing to say.
        self._needs_deed = bool(ASKS_WHY.search(self._folded) or _ASKS_WHO.search(self._folded))

    def lack(self, said: Said) -> Lack | None:
        """What the question takes for granted and the statement does not hold; None where it holds all."""
        checks: tuple[Callable[[Said], Lack | None], ...] = (
            self._other_roles, self._ordinal, self._number, self._year, self._cause, self._money, self._denied,
            self._contrast, self._sibling, self._deed,
        )  # fmt: skip
        return next((lack for check in checks if (lack := check(said)) is not None), None)

    def _deed(self, said: Said) -> Lack | None:
        word = self._predicate
        unknown = said.language != self._spoken and not of_one_meaning(stem(word), self._spoken, said.language)
        if not word or stem(word) in FRAME or unknown:
            return None
        known = set(stems(f"{said.heading} {said.text} {said.after}"))
        return None if holds(word, known, self._spoken, said.language) else Lack(word, slight=not self._needs_deed)

    def _other_roles(self, said: Said) -> Lack | None:
        """`A acquired B` does not tell when B acquired A."""
        if said.language != self._spoken:
            return None

        def is_predicate(word: str) -> bool:
            own = alike(stem(word), stem(self._predicate)) and not _NOUN.search(word)
            return own or (
                bool(_VERB.search(word)) and holds(self._predicate, [stem(word)], self._spoken, self._spoken)
            )

        return Lack(contrary=True) if against(self._roles, said.text, is_predicate) else None

    def _ordinal(self, said: Said) -> Lack | None:
        near = fold(said.near)
        for pattern in ORDINALS:
            match = pattern.search(self._folded)
            if match and not NO_ORDINAL.search(self._folded[: match.start()]) and not pattern.search(near):
                return Lack(match[0])
        return None

    def _number(self, said: Said) -> Lack | None:
        """`The 90-day term` is not told of by what says sixty."""
        asking = _COUNTED.sub(" ", self._question)
        asked = [
            one for one in quantities(asking) if one.value != 1 and not ASKED_COUNT.search(self._folded[: one.start])
        ]
        if not asked:
            return None
        near = _COUNTED.sub(" ", fold(said.near))
        known = {one.value for one in quantities(near)}
        for one in asked:
            told = one.value in known or re.search(rf"(?<!\d){one.value:f}(?!\d)", near)
            if not told and not goes_for(one, asking, near):
                return Lack(self._question[one.start : one.end].strip(), contrary=True)
        return None

    def _year(self, said: Said) -> Lack | None:
        asked, told = set(_YEAR.findall(self._folded)), set(_YEAR.findall(said.text))
        return Lack(min(asked), contrary=True) if asked and told and asked.isdisjoint(told) else None

    def _cause(self, said: Said) -> Lack | None:
        if not ASKS_WHY.search(self._folded) or CAUSE.search(fold(f"{said.text}\n{said.after}")):
            return None
        return Lack()

    def _money(self, said: Said) -> Lack | None:
        return Lack() if ASKS_MONEY.search(self._folded) and not MONEY.search(fold(said.text)) else None

    def _denied(self, said: Said) -> Lack | None:
        """Why something is done, or when, is not told by what says that it is not."""
        if NEGATION.search(self._folded) or not _ASKS.search(self._folded):
            return None
        words = content(self._question)
        clauses = [(self._count(words, clause), clause) for clause in CLAUSE.split(fold(said.text))]
        count, best = max(clauses, key=lambda one: one[0])
        denial = DENIED.search(best)
        if count < _LEAST_DENIED or denial is None or EXCEPTED.search(best):
            return None
        behind = best[denial.end() :]
        if self._predicate and self._count([self._predicate], best):
            return Lack(contrary=True) if self._count([self._predicate], behind) else None
        return Lack(contrary=True) if self._count(words, behind) >= _LEAST_DENIED else None

    def _count(self, words: Iterable[str], text: str) -> int:
        known = set(stems(text))
        return sum(holds(word, known, self._spoken, self._spoken) for word in words)

    def _contrast(self, said: Said) -> Lack | None:
        """What is said of the south is not said of the west."""
        told, asked = set(tokens(f"{said.text} {said.after}")), set(tokens(self._question))
        for group in CONTRASTS:
            wanted = [each for each in group if not each.isdisjoint(asked)]
            given = [each for each in group if not each.isdisjoint(told)]
            if wanted and given and not any(each in given for each in wanted):
                return Lack(next(iter(wanted[0] & asked)), contrary=True)
        return None

    def _sibling(self, said: Said) -> Lack | None:
        """What is said of the T50 is not said of the T60."""
        told = set(_CODE.findall(said.text))
        for code in _CODE.findall(self._question):
            if code not in told and any(shape(one) == shape(code) for one in told):
                return Lack(code, contrary=True)
        return None


@lru_cache(maxsize=256)
def premise(question: str) -> Premise:
    """The premise of a question."""
    return Premise(question)


def holds(word: str, known: Iterable[str], spoken: str, read: str) -> bool:
    """Whether stems of the language `read` hold a folded word of the language `spoken`, or one of the same meaning."""
    return not _forms(stem(word), spoken, read, frozenset(known)).isdisjoint(known)


@lru_cache(maxsize=20_000)
def _forms(own: str, spoken: str, read: str, known: frozenset[str]) -> frozenset[str]:
    others = of_one_meaning(own, spoken, read)
    return frozenset(
        one for one in known if alike(own, one) or one in others or any(alike(one, other) for other in others)
    )
