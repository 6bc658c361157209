"""Adds up what speaks for an order: first its words, by kind of order, then these sums with how the sentence stands."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

from services.runtime.recognition.injections.gestures import NAMES

# What of the features of words is looked at again beside the surroundings.
FORMS = NAMES | {*"asks short long mark place mail quotes colon bullet tool".split(), "code signs"}
_WITH = frozenset(f"among {what}" for what in ("bids", "letters", "talk", "speech", "asks", "machines")) | frozenset(
    f"touch:{much}" for much in ("none", "some", "much")
)
_BOTH = _WITH | {"alone", "last", "among code"}
# Beside these a gesture means less, or more.
_BESIDE = _WITH | {"alone"}
# Steps in which the sums of words are told apart: the best of all, and that of each kind.
_STEP, _LOWEST, _HIGHEST = 1.5, -2, 8
_KIND_STEP, _KIND_HIGHEST = 2.0, 6
_MOST, _PART = 12.0, 4.0
# Sums of whole numbers are the same in any order: steps are told apart by them.
_WHOLE = 100
# The name of what is added whatever else there is.
ALWAYS = ""


@dataclass(frozen=True)
class Weights:
    """`words[feature]`: a weight for each of `kinds`, in hundredths. `standing[feature]`: one weight.

    `user`: what is added to the sum of the kind `order` where a user wrote it. `data`: what is added to the whole
    elsewhere, `alone`: where there is nothing around the sentence.
    """

    kinds: Sequence[str]
    words: Mapping[str, Sequence[int]]
    standing: Mapping[str, float]
    user: float
    data: float
    alone: float

    @property
    def nothing(self) -> Sequence[float]:
        """The sums where no word stands for anything."""
        return [0.0] * len(self.kinds)

    @classmethod
    def of(cls, learnt: Mapping[str, Any]) -> "Weights":
        """As they are kept: `words` by kind and feature, `standing` by feature, `bias`."""
        by_kind = cast(Mapping[str, Mapping[str, float]], learnt["words"])
        names = {name for one in by_kind.values() for name in one}
        words = {name: tuple(round(_WHOLE * one.get(name, 0.0)) for one in by_kind.values()) for name in names}
        return cls(tuple(by_kind), words, learnt["standing"], **learnt["bias"])

    def sums(self, found: Iterable[str]) -> Sequence[float]:
        """What the words make, by kind."""
        known = [self.words[name] for name in found if name in self.words]
        return [sum(column) / _WHOLE for column in zip(*known, strict=True)] if known else self.nothing

    def total(self, sums: Sequence[float], found: Iterable[str], around: Iterable[str]) -> float:
        """What words and surroundings make together; from 0 on it is suspicious."""
        around = set(around)
        known = self.standing
        named = seconds(self.kinds, sums, found, around)
        made = sum(known.get(name, 0.0) * value for name, value in named)
        return made + known.get(ALWAYS, 0.0) + (self.alone if "alone" in around else self.data)

    def user_total(self, sums: Sequence[float]) -> float:
        """The same for what a user wrote, who may ask for anything but to drop the rules."""
        return sums[self.kinds.index("order")] + self.user


def seconds(
    kinds: Sequence[str], sums: Sequence[float], found: Iterable[str], around: Iterable[str]
) -> Iterator[tuple[str, float]]:
    """(feature, value) of the second addition. `found`: features of the words, `around`: of the surroundings."""
    for kind, value in zip(kinds, sums, strict=True):
        yield f"words {kind}", max(-_MOST, min(_MOST, value)) / _PART
        yield f"{kind}={int(max(_LOWEST, min(_KIND_HIGHEST, value // _KIND_STEP)))}", 1.0
    level = int(max(_LOWEST, min(_HIGHEST, (max(sums) + 2) // _STEP)))
    yield f"={level}", 1.0
    for form in found:
        if form in FORMS:
            yield form, 1.0
            if form in NAMES:
                yield from ((f"{form} {name}", 1.0) for name in around if name in _BESIDE)
    for name in around:
        yield name, 1.0
        if name in _BOTH or name.count(":") == 2 or name.startswith("alone:"):
            yield f"={level} {name}", 1.0


@lru_cache(maxsize=1)
def weights() -> Weights:
    """Of weights.json."""
    text = files("services.runtime.recognition.injections").joinpath("weights.json").read_text(encoding="utf-8")
    return Weights.of(json.loads(text))
