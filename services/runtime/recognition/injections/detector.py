"""Scores text by how much it tries to give orders to a model, sentence by sentence.

Each sentence is reduced to what its words stand for (concepts.py); a linear model for each kind of order adds up what
speaks for it. The weights are learnt from public and own examples; `python -m services.orchestrator.trials.injection`
measures them. No filter of text is a boundary: what a run may do is bounded elsewhere.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal, Protocol, cast

from services.runtime.recognition.injections.concepts import features, plain
from services.runtime.recognition.injections.disguises import disguised
from services.runtime.recognition.injections.sentences import sentences

Place = Literal["user", "data"]
# What a sum of 0, the weights' own limit, is as a score.
SUSPICIOUS = 0.8
_SHIFT = math.log(SUSPICIOUS / (1 - SUSPICIOUS))
# What is hidden or encoded is more likely to be an order: this much is added to its sum.
_HIDDEN = 1.5
# Hidden text that says nothing that can be read.
_HIDDEN_SCORE = 0.9
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


@dataclass(frozen=True)
class _Weights:
    """`of[feature]`: a weight for each of `kinds`; `bias` by place, for the kinds that count there."""

    kinds: tuple[str, ...]
    of: Mapping[str, tuple[float, ...]]
    bias: Mapping[str, tuple[float, ...]]


@lru_cache(maxsize=1)
def _weights() -> _Weights:
    text = files("services.runtime.recognition.injections").joinpath("weights.json").read_text(encoding="utf-8")
    learnt = cast(Mapping[str, Mapping[str, Mapping[str, float]]], json.loads(text))
    kinds = tuple(learnt["weights"])
    names = {name for one in learnt["weights"].values() for name in one}
    of = {name: tuple(learnt["weights"][kind].get(name, 0.0) for kind in kinds) for name in names}
    bias = {place: tuple(one.get(kind, -math.inf) for kind in kinds) for place, one in learnt["bias"].items()}
    return _Weights(kinds, of, bias)


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

    def score(self, text: str, place: Place = "data") -> float:
        """From 0 to 1: the worst of the text; SUSPICIOUS is the limit that the weights are made for."""
        return max((one.score for one in self.suspects(text, place, least=0.0)), default=0.0)

    def suspects(self, text: str, place: Place = "data", least: float = SUSPICIOUS) -> Iterator[Suspect]:
        """Sentences and hidden parts of at least this score; those of the text in order, then what is hidden.

        Time grows with the text and no faster.
        """
        for start, end in sentences(text):
            score, kind = _judged(plain(text[start:end]), place)
            if score >= least and kind:
                yield Suspect(start, end, score, kind)
        if self._classifier is not None and place == "data":
            yield from self._classified(self._classifier, text, least)
        for hidden in disguised(text):
            judged = (
                _judged(plain(hidden.plain[start:end]), "data", _HIDDEN) for start, end in sentences(hidden.plain)
            )
            score = max((one for one, _ in judged), default=0.0)
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


def _judged(sentence: str, place: Place, bonus: float = 0.0) -> tuple[float, str]:
    """Score and kind of a folded sentence."""
    weights = _weights()
    found = [weights.of[name] for name in set(features(sentence)) if name in weights.of]
    if not found:
        return 0.0, ""
    totals = [bias + sum(values) for bias, values in zip(weights.bias[place], zip(*found, strict=True), strict=True)]
    worst = max(totals)
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, worst + bonus + _SHIFT)))), weights.kinds[totals.index(worst)]
