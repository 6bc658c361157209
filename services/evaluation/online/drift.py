"""Whether a tenant's traffic is still what it was: each window of answers is compared with a reference, once.

The windows do not overlap, so that of comparisons without a change a share of alpha alarms, and no more. What comes
first is the reference, and it is kept. Who accepts a change deletes it; what comes then is the new one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.evaluation.answered import Answered
from services.evaluation.online.offered import is_refused, tool_mix, top_score
from services.evaluation.online.two_samples import (
    Difference,
    numbers_differ,
    shares_differ,
    vectors_differ,
    words_differ,
)

Value = TypeVar("Value")
RETRIEVAL_SCORE, REFUSALS, TOOL_MIX, QUESTIONS = "retrieval_score", "refusals", "tool_mix", "questions"


@dataclass(frozen=True)
class Verdict:
    """One comparison of one kind."""

    kind: str
    distance: float
    p_value: float
    is_drift: bool


@dataclass(frozen=True)
class Windows:
    """How many answers are in the reference and in each window, and how often chance may alarm."""

    reference: int = 500
    window: int = 200
    alpha: float = 0.001


class Comparison(Generic[Value]):
    """Values of one kind as they come."""

    def __init__(
        self, kind: str, differ: Callable[[Sequence[Value], Sequence[Value]], Difference], windows: Windows
    ) -> None:
        self._kind = kind
        self._differ = differ
        self._windows = windows
        self._reference: list[Value] = []
        self._window: list[Value] = []

    @property
    def reference(self) -> Sequence[Value]:
        """What later values are compared with, as far as it has come."""
        return self._reference

    @property
    def is_due(self) -> bool:
        """Whether the next value completes a window."""
        return len(self._reference) >= self._windows.reference and len(self._window) + 1 >= self._windows.window

    def restore(self, reference: Sequence[Value]) -> None:
        """Takes another reference; where it is short of values those of the window that goes on are its next ones."""
        self._reference = list(reference)
        if len(self._reference) < self._windows.reference:
            self._reference += self._window
            self._window = []

    def forget(self) -> None:
        """Begins anew."""
        self._reference, self._window = [], []

    def add(self, value: Value) -> Verdict | None:
        """Takes one; a verdict where it completes a window."""
        if len(self._reference) < self._windows.reference:
            self._reference.append(value)
            return None
        self._window.append(value)
        if len(self._window) < self._windows.window:
            return None
        window, self._window = self._window, []
        found = self._differ(self._reference, window)
        return Verdict(self._kind, found.distance, found.p_value, found.p_value < self._windows.alpha)


class TenantDrift:
    """The four kinds of one tenant. A comparison of questions takes some 100 ms: not on the loop."""

    def __init__(self, windows: Windows) -> None:
        # No fewer permutations than alpha needs to be reached at all.
        permutations = max(199, round(2 / windows.alpha) - 1)
        self._scores = Comparison[float](RETRIEVAL_SCORE, numbers_differ, windows)
        self._refusals = Comparison[bool](REFUSALS, shares_differ, windows)
        self._tools = Comparison[str](TOOL_MIX, words_differ, windows)
        self._questions = Comparison[NDArray[np.float64]](
            QUESTIONS, lambda one, other: vectors_differ(one, other, permutations), windows
        )
        self._comparisons: Mapping[str, Comparison[Any]] = {
            RETRIEVAL_SCORE: self._scores,
            REFUSALS: self._refusals,
            TOOL_MIX: self._tools,
            QUESTIONS: self._questions,
        }

    @property
    def references(self) -> Mapping[str, Sequence[Any]]:
        """By kind."""
        return {kind: one.reference for kind, one in self._comparisons.items()}

    @property
    def is_due(self) -> bool:
        """Whether the next answer may complete a window."""
        return any(one.is_due for one in self._comparisons.values())

    def restore(self, references: Mapping[str, Sequence[Any]]) -> None:
        """Takes what was kept; kinds that are not named begin anew."""
        for kind, one in self._comparisons.items():
            one.restore(references.get(kind, ()))

    def forget(self, kind: str) -> None:
        """Begins anew with a kind, as where nothing was seen yet."""
        self._comparisons[kind].forget()

    def add(self, answered: Answered, vector: NDArray[np.float64] | None) -> list[Verdict]:
        """Takes an answer. `vector`: of its question, where there is one."""
        score = top_score(answered)
        verdicts: Iterable[Verdict | None] = (
            self._scores.add(score) if score is not None else None,
            self._refusals.add(is_refused(answered)),
            self._tools.add(tool_mix(answered)),
            self._questions.add(vector) if vector is not None else None,
        )
        return [one for one in verdicts if one is not None]
