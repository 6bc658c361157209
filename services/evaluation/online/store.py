"""Where scores of live traffic are kept: the Protocol, and a store in memory. Never a word of what was said."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.evaluation.online.offered import Offered
from services.evaluation.score import Score


@dataclass(frozen=True)
class Agreement:
    """The mean of a metric over answers that people liked, or did not. `rating`: "up", "down" or "none"."""

    metric: str
    rating: str
    mean: float
    count: int


class ScoreStore(Protocol):
    """Keeps what was measured, for a while. Raises DependencyFailed where it is lost."""

    async def open(self) -> None:
        """Connects, and makes the tables where they are not there."""
        ...

    async def close(self) -> None:
        """Lets go."""
        ...

    async def put(self, offered: Offered, scores: Sequence[Score], judge: str) -> None:
        """Keeps what was measured of an answer, in place of what was before. `judge`: its name."""
        ...

    async def put_feedback(self, tenant: str, said: Mapping[str, Sequence[float]]) -> int:
        """Keeps what people said, -1 to 1, by answer id, in place of what was before; how many answers are known."""
        ...

    async def agreement(self, tenant: str) -> list[Agreement]:
        """Whether people think as the judge does, by metric and rating."""
        ...

    async def forget(self, days: int) -> int:
        """Deletes what is older; how many answers."""
        ...


def rating_of(feedback: float | None) -> str:
    """As the gateway calls it."""
    return "up" if feedback and feedback > 0 else "down" if feedback and feedback < 0 else "none"


class MemoryScoreStore:
    """A ScoreStore of this process: what comes after the newest `most` answers goes."""

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self.kept: dict[tuple[str, str], tuple[Offered, tuple[Score, ...], str]] = {}
        self.feedback: dict[tuple[str, str], float] = {}

    async def open(self) -> None:
        """See ScoreStore."""

    async def close(self) -> None:
        """See ScoreStore."""

    async def put(self, offered: Offered, scores: Sequence[Score], judge: str) -> None:
        """See ScoreStore."""
        self.kept[offered.answered.tenant, offered.answered.answer_id] = offered, tuple(scores), judge
        while len(self.kept) > self._most:
            oldest = next(iter(self.kept))
            del self.kept[oldest]
            self.feedback.pop(oldest, None)

    async def put_feedback(self, tenant: str, said: Mapping[str, Sequence[float]]) -> int:
        """See ScoreStore."""
        known = {(tenant, one): statistics.fmean(scores) for one, scores in said.items() if (tenant, one) in self.kept}
        self.feedback |= known
        return len(known)

    async def agreement(self, tenant: str) -> list[Agreement]:
        """See ScoreStore."""
        values: dict[tuple[str, str], list[float]] = {}
        for key, (_, scores, _) in self.kept.items():
            for score in scores if key[0] == tenant else ():
                if score.value is not None:
                    values.setdefault((score.metric, rating_of(self.feedback.get(key))), []).append(score.value)
        return [Agreement(*key, statistics.fmean(found), len(found)) for key, found in sorted(values.items())]

    async def forget(self, days: int) -> int:
        """See ScoreStore. The process does not live that long."""
        return 0
