"""The scores of a run that is good enough, question by question: what later ones are compared with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.evaluation.golden.sets import write_text
from services.evaluation.runs.record import Scored
from services.evaluation.score import Score
from services.evaluation.tools.assignment import NOT_JUDGED

_DIGITS = 6


class BrokenBaseline(ValueError):
    """A file that is no baseline. The message says why."""


class Baseline(BaseModel):
    """A committed file. Scores by variant, metric and item; an item without a value is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    golden_set: str = Field(description="Name of the set.")
    version: int = Field(description="Of the set.")
    fingerprint: str = Field(description="SHA-256 of the items: other items cannot be compared.")
    half: str = Field(default="dev", description="Which half.")
    judge: str = Field(default="", description="Who judged; scores of two judges do not compare.")
    prompts: Mapping[str, str] = Field(default={}, description="Versions of the judge's prompts, by task and language.")
    statements: str = Field(default=NOT_JUDGED, description="How SQL in calls was judged.")
    made_by: str = Field(default="", description="The command.")
    scores: Mapping[str, Mapping[str, Mapping[str, float]]]
    # Questions that had an answer, by variant.
    answered: Mapping[str, Sequence[str]] = {}

    @classmethod
    def read(cls, path: Path) -> "Baseline":
        """Raises BrokenBaseline."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise BrokenBaseline(f"{path}: {error}") from None

    def write(self, path: Path) -> None:
        """One line a metric, so that a change can be read in a diff."""
        path.parent.mkdir(parents=True, exist_ok=True)
        head = self.model_dump(exclude={"scores"})
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
        variants: list[str] = []
        for variant, metrics in self.scores.items():
            inner = ",\n".join(f"      {json.dumps(name)}: {json.dumps(one)}" for name, one in metrics.items())
            variants.append(f"    {json.dumps(variant)}: {{\n{inner}\n    }}")
        text = "\n".join(["{", *lines, '  "scores": {', ",\n".join(variants), "  }", "}"])
        write_text(path, text + "\n")


@dataclass(frozen=True)
class Origin:
    """What a baseline is of."""

    golden_set: str
    version: int
    fingerprint: str
    half: str
    judge: str
    made_by: str
    statements: str = NOT_JUDGED
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])


def reworded(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Prompts that both have, by versions, and that are not the same: what was judged by them does not compare."""
    return [name for name in before if now.get(name, before[name]) != before[name]]


def baseline_of(origin: Origin, scored: Sequence[Scored], answered: Mapping[str, Sequence[str]]) -> Baseline:
    """From a run."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one in sorted(scored, key=lambda one: (one.variant, one.score.metric, one.item_id)):
        if one.score.value is not None:
            of_metric = found.setdefault(one.variant, {}).setdefault(one.score.metric, {})
            of_metric[one.item_id] = round(one.score.value, _DIGITS)
    return Baseline(**origin.__dict__, scores=found, answered={name: sorted(ids) for name, ids in answered.items()})


def scores_of(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Score]]:
    """As comparisons take them."""
    return {metric: {key: Score(metric, value) for key, value in one.items()} for metric, one in metrics.items()}
