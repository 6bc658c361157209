"""A text as the detector reads it: its sentences, what their words stand for, and how each stands among the others."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from services.runtime.recognition.injections.concepts import features, plain, words_of
from services.runtime.recognition.injections.judging import weights
from services.runtime.recognition.injections.sentences import sentences
from services.runtime.recognition.injections.surroundings import REACH, YOU, Traits, Window, mood_of, traits

# What a first word stands for that makes it a verb which bids.
_VERBS = frozenset(
    f"^{name}" for name in "write translate encode decode send run delete reveal add drop help follow".split()
)
# What is said in quotation marks, or after a dash up to another, unless it leads elsewhere; so many words tell of it.
_SAID = re.compile(r"[\"“«„](?![^\"”»“]{0,300}https?:)[^\"”»“]{3,300}(?:[\"”»“]|$)|^ ?-(?=\S)[^-]{3,300} -")
_QUOTES = frozenset('"“«„')
_PROGRAM = frozenset("(){}=<>[];_")
_LEAST_TELLING = 3


@dataclass(slots=True)
class Sentence:
    """`text[start:end]`, folded. `found`: features of its words; `mood` and `does` as in surroundings.py."""

    start: int
    end: int
    folded: str
    words: Sequence[str]
    found: Sequence[str]
    mood: str
    does: str
    _traits: Traits | None = None
    _sums: Sequence[float] | None = None

    @property
    def traits(self) -> Traits:
        """For comparing it; made when it is first asked for, as most sentences are far from any that matters."""
        if self._traits is None:
            self._traits = traits(self.folded, self.words, self.mood, self.does)
        return self._traits

    @property
    def sums(self) -> Sequence[float]:
        """What its words make, by kind; made when it is first asked for."""
        if self._sums is None:
            self._sums = weights().sums(self.found)
        return self._sums

    @property
    def tells(self) -> bool:
        """Whether it can be an order at all."""
        return bool(self.found) or self.mood != "states" or not YOU.isdisjoint(self.words)


def _tells(one: Sentence) -> bool:
    return one.tells


def read(text: str, worth: Callable[[Sentence], bool] = _tells) -> Iterator[tuple[Sentence, Sequence[str]]]:
    """Each sentence that can be an order, with features of how it stands, in order. No more than a window is kept.

    `worth`: whether it is worth to see how a sentence stands.
    """
    rest = (_sentence(text, start, end) for start, end in sentences(text))
    kept, around = deque(islice(rest, REACH + 1)), Window()
    counted = deque[tuple[int, Sentence]]()
    first = number = 0  # of `kept`, and of the sentence at hand, in the text
    while number - first < len(kept):
        own = kept[number - first]
        if worth(own):
            while counted and counted[0][0] < number - REACH:
                around.add(counted.popleft()[1].traits, -1)
            begin = max(first, counted[-1][0] + 1 if counted else 0)
            for at in range(begin, first + len(kept)):
                counted.append((at, kept[at - first]))
                around.add(kept[at - first].traits)
            yield own, around.standing(own.traits, ends=number - first == len(kept) - 1)
        kept.extend(islice(rest, 1))
        if number - first == REACH:
            kept.popleft()
            first += 1
        number += 1


def _sentence(text: str, start: int, end: int) -> Sentence:
    folded = plain(text[start:end])
    words = words_of(folded)
    # A dash matters only where it begins.
    quotes = not _QUOTES.isdisjoint(folded) or folded.startswith(("-", " -"))
    if not quotes or not (rest := _around_quotes(folded)):
        found = tuple(features(folded, words))
    else:
        found = (*features(rest), "said")
    mood, does = mood_of(folded, words, verb=not _VERBS.isdisjoint(found))
    return Sentence(start, end, folded, words, found, mood, does)


def _around_quotes(folded: str) -> str:
    """What a sentence says itself that only tells what somebody says; empty where it does not."""
    rest, count = _SAID.subn(" ", folded)
    words = words_of(rest)
    # What is written as a program or by a program is no sentence that tells of another.
    if not count or len(words) < _LEAST_TELLING or not _PROGRAM.isdisjoint(rest) or mood_of(rest, words)[0] != "states":
        return ""
    return rest
