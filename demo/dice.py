"""Draws that come out the same on every Python: built on `random.random()`, whose sequence is guaranteed for a seed."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Seeded draws. `random.choice`, `shuffle` and `sample` are avoided: their use of the generator may change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # not for secrets

    def unit(self) -> float:
        """A number from 0 to less than 1."""
        return self._random.random()

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        return int(self.unit() * bound)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    def draw(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different ones, in drawn order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(count)]
