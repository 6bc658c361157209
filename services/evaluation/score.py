"""One metric of one answer: a number, or why there is none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Status(StrEnum):
    """Why a score has a value, or has none. Only `OK` has one."""

    OK = "ok"
    # The answer (or the reference) says nothing that could be judged: a refusal, an empty text.
    NO_CLAIMS = "no_claims"
    # Nothing was retrieved. Never judged as supported by nothing, nor as 0. Measures of a ranking are 0 then, as ever.
    NO_CONTEXT = "no_context"
    # The item has no reference, no expected source, no expected call: the metric does not apply.
    NO_REFERENCE = "no_reference"
    # The judge (or what embeds for it) failed, or answered what cannot be read, also when asked once more.
    JUDGE_FAILED = "judge_failed"
    # The budget for judging was used up.
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True)
class Score:
    """`value` is within [0, 1] (noise sensitivity: [-1, 1]), or None unless `status` is OK."""

    metric: str
    value: float | None
    status: Status = Status.OK
    reason: str = ""
    claim_count: int = 0
    # Questions put to the judge. Those that a cache answered are among them; one that was repeated counts once.
    judge_calls: int = 0
    # What a person would like to see: claims with verdicts, relevant passages.
    details: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        if (self.value is None) == (self.status is Status.OK):
            raise ValueError(f"{self.metric}: a value of {self.value} with status {self.status}")


@dataclass(frozen=True)
class Mean:
    """A metric over many answers. What has no value is counted beside, never averaged in.

    `low` and `high` bound the mean's 95 % interval (percentile bootstrap over items).
    """

    metric: str
    mean: float | None
    low: float | None
    high: float | None
    scored_count: int
    missing: Mapping[Status, int]

    @property
    def missing_count(self) -> int:
        """Items that the metric applies to and that have no value."""
        return sum(count for status, count in self.missing.items() if status is not Status.NO_REFERENCE)

    @property
    def coverage(self) -> float:
        """Share of the items that the metric applies to that have a value; 1 where it applies to none."""
        asked = self.scored_count + self.missing_count
        return self.scored_count / asked if asked else 1.0


def valued(scores: Sequence[Score]) -> list[float]:
    """The values there are."""
    return [score.value for score in scores if score.value is not None]
