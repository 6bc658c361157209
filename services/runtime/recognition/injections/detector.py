"""Scores text by how much it tries to give orders to a model, sentence by sentence.

Each sentence is reduced to what its words stand for (concepts.py) and to how it stands among the others
(surroundings.py); two additions of weights make a score of that (judging.py). The weights are learnt from public and
own examples; `python -m services.orchestrator.trials.injection` measures them. No filter of text is a boundary: what
a run may do is bounded elsewhere.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from services.runtime.recognition.injections.concepts import features, plain
from services.runtime.recognition.injections.disguises import disguised
from services.runtime.recognition.injections.judging import weights
from services.runtime.recognition.injections.reading import Sentence, read
from services.runtime.recognition.injections.sentences import sentences
from services.runtime.recognition.injections.surroundings import YOU
from services.runtime.recognition.injections.version import version

Place = Literal["user", "data"]
# Of the code that runs, whatever becomes of its files later.
_VERSION = version()
# What a sum of 0, the weights' own limit, is as a score.
SUSPICIOUS = 0.8
_SHIFT = math.log(SUSPICIOUS / (1 - SUSPICIOUS))
# A sentence beside one that gives orders goes with it from here on; what is below it was found harmless.
HARMLESS_BELOW = 0.4
# What is hidden or encoded is more likely to be an order: this much is added to its sum.
_HIDDEN = 1.5
# Hidden text that says nothing that can be read.
_HIDDEN_SCORE = 0.9
# Beside a limit that is met, scores fall as fast as those of a user's words do.
_STEEP = 1.6
# A sentence that neither bids nor asks has words which speak for an order, or is none; words of one that does may be of
# any kind, but do not speak against it.
_LEAST_WORDS, _LEAST_BID = 2.0, -0.5
_KINDS = ("order", "reply", "task")
# Of a text that a classifier reads at a time: about what 512 tokens hold.
_WINDOW_CHARS = 1_600


@dataclass(frozen=True)
class Suspect:
    """`text[start:end]` looks like an order. `score` is from 0 to 1.

    `kind`: `order` (to drop rules, tell secrets, act), `reply` (to change the answer), `task` (any other work),
    `hidden`, or `model` (a classifier's judgement).
    """

    start: int
    end: int
    score: float
    kind: str


class Classifier(Protocol):
    """A model that judges a text as a whole, besides the sentences."""

    def score(self, text: str) -> float:
        """From 0, nothing of the kind, to 1."""
        ...


class Detector:
    """Finds orders to a model.

    `place`: `user` is what a user writes, who may ask for anything but to drop the rules; `data` is what documents,
    pages, cells and tools bring in, which may ask for nothing.
    """

    def __init__(self, classifier: Classifier | None = None) -> None:
        """`classifier` judges texts besides; it takes its time, and is asked about data only."""
        self._classifier = classifier

    @property
    def is_slow(self) -> bool:
        """Whether it must not hold up an event loop."""
        return self._classifier is not None

    @property
    def version(self) -> str:
        """Names what the verdicts are made by; empty where that is not this code alone."""
        return "" if self._classifier is not None else _VERSION

    def score(self, text: str, place: Place = "data") -> float:
        """From 0 to 1: the worst of the text; SUSPICIOUS is the limit that the weights are made for."""
        return max((one.score for one in self.suspects(text, place, least=0.0)), default=0.0)

    def hidden_score(self, text: str) -> float:
        """The same for text that its reader is not meant to see."""
        return max((one.score for one in _data_suspects(text, _HIDDEN)), default=0.0)

    def suspects(self, text: str, place: Place = "data", least: float = SUSPICIOUS) -> Iterator[Suspect]:
        """Sentences and hidden parts of at least this score; those of the text in order, then what is hidden.

        Time grows with the text and no faster.
        """
        found = _user_suspects(text) if place == "user" else _data_suspects(text)
        yield from (one for one in found if one.score >= least)
        if self._classifier is not None and place == "data":
            yield from self._classified(self._classifier, text, least)
        for hidden in disguised(text):
            score = self.hidden_score(hidden.plain)
            score = max(score, _HIDDEN_SCORE) if hidden.certain else score
            if score >= max(least, 0.01):
                yield Suspect(hidden.start, hidden.end, score, "hidden")

    def _classified(self, classifier: Classifier, text: str, least: float) -> Iterator[Suspect]:
        """Sentences are put together up to what the classifier has learnt to read at a time."""
        start = end = 0
        for sentence_start, sentence_end in (*sentences(text), (len(text), len(text) + _WINDOW_CHARS)):
            if sentence_end - start > _WINDOW_CHARS and end > start:
                if (score := classifier.score(text[start:end])) >= least:
                    yield Suspect(start, end, score, "model")
                start = sentence_start
            end = sentence_end


def _score(total: float, bonus: float = 0.0) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total + bonus + _SHIFT))))


def _user_suspects(text: str) -> Iterator[Suspect]:
    """A user's words are judged sentence by sentence: what stands around them is his as well."""
    learnt = weights()
    for start, end in sentences(text):
        if found := features(plain(text[start:end])):
            yield Suspect(start, end, _score(learnt.user_total(learnt.sums(found))), "order")


def _data_suspects(text: str, bonus: float = 0.0) -> Iterator[Suspect]:
    learnt = weights()

    def worth(one: Sentence) -> bool:
        # Words first: few are worth a look at what stands around them.
        if one.mood == "states" and YOU.isdisjoint(one.words):
            return bool(one.found) and max(one.sums) >= _LEAST_WORDS
        return not one.found or max(one.sums) >= _LEAST_BID

    for one, around in read(text, worth):
        score = _score(_STEEP * learnt.total(one.sums, one.found, around), bonus)
        yield Suspect(one.start, one.end, score, _kind(one.found, one.sums))


def _kind(found: Collection[str], sums: Sequence[float]) -> str:
    """Of the kinds that have a name for people the likeliest."""
    kinds = weights().kinds
    worst = max(_KINDS, key=lambda kind: sums[kinds.index(kind)])
    return worst if any(sums) else "task"
