"""The table that is committed, and the lines for programs."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.evaluation.retrieval.measures import (
    FIRST,
    MEASURES,
    MRR,
    NDCG,
    PRECISION,
    RECALL_10,
    RECALL_100,
)
from services.evaluation.retrieval.stages import LEGS, TRIVIAL
from services.evaluation.retrieval.targets import Verdict, best_leg, gain
from services.evaluation.retrieval.trial import TOP_K, Trial
from services.evaluation.statistics import RESAMPLES

_COLUMNS = (NDCG, RECALL_10, RECALL_100, MRR, PRECISION, FIRST)
_INTRODUCTION = """# Quality of retrieval

Written by `make eval-retrieval`; do not edit. One part a split: `dev` is for tuning, `test` is read for a release, and
each reading is noted in `test-readings.log`.

Every figure went through the running product: passages by Embed and Upsert, one a document with its title before it,
questions by Search with `top_k` {top_k}. `shared words` counts the words that question and passage have in common: what
anything has to beat. Relevance is binary; ± is half of the 95 % interval over questions; the last column but one is
nDCG@10 above the better single leg with the interval of the paired bootstrap ({resamples} resamples). *answered* is the
share of the questions that got an answer; one without counts 0. Passages beyond the model's window are cut there.
"""


@dataclass(frozen=True)
class Origin:
    """Where figures come from. `is_sample`: from the collections in the repository, which are small."""

    split: str
    command: str
    commit: str
    model: str
    machine: str
    day: str
    is_sample: bool

    @property
    def heading(self) -> str:
        """Of the part that holds the figures."""
        return f"{self.split}, shipped sample" if self.is_sample else self.split


def section(origin: Origin, trials: Sequence[Trial], verdicts: Sequence[Verdict], faults: Sequence[str]) -> str:
    """The part of one split in Markdown."""
    lines = [f"## {origin.heading}", "", f"`{origin.command}`", ""]
    lines += [f"Commit {origin.commit}; model {origin.model}; {origin.machine}; {origin.day}.", ""]
    lines += [f"- **fault**: {fault}" for fault in faults] + ([""] if faults else [])
    lines += ["| target | | measured |", "|---|---|---|"]
    lines += [f"| {one.target} | {_word(one.passed)} | {one.measured} |" for one in verdicts]
    heads = ["collection", "stage", *_COLUMNS, "nDCG@10 to best leg", "answered"]
    lines += ["", _row(heads), _row(["---"] * len(heads))]
    for trial in trials:
        lines += _rows(trial)
    lines += ["", "| collection | questions | passages | cut at the model's window | empty |", "|---|---|---|---|---|"]
    for trial in trials:
        one = trial.collection
        counts = (len(one.questions), len(one.passages), trial.truncated_count, trial.blank_count)
        lines.append(_row([one.name, *map(str, counts)]))
    return "\n".join(lines) + "\n"


def _rows(trial: Trial) -> Iterator[str]:
    for place, (stage, measured) in enumerate(trial.measured.items()):
        cells = [trial.collection.name if place == 0 else "", stage]
        for column in _COLUMNS:
            one = measured.estimate(column)
            cells.append(f"{one.mean:.3f} ± {one.half_width:.3f}")
        has_gain = stage != TRIVIAL and all(leg.name in trial.measured for leg in LEGS)
        if has_gain and stage != best_leg(trial):
            above = gain(trial, stage)
            cells.append(f"{above.mean:+.3f} [{above.low:+.3f}, {above.high:+.3f}]")
        else:
            cells.append("best leg" if has_gain else "")
        yield _row([*cells, f"{measured.coverage:.0%}"])


def written(path: Path, heading: str, part: str) -> None:
    """Puts a part into the file in place of the one of that heading; other parts stay."""
    parts = _parts(path.read_text(encoding="utf-8")) if path.exists() else {}
    parts[heading] = part
    path.parent.mkdir(parents=True, exist_ok=True)
    introduction = _INTRODUCTION.format(top_k=TOP_K, resamples=RESAMPLES)
    path.write_text("\n".join([introduction, *(parts[name] for name in sorted(parts))]), encoding="utf-8")


def _parts(text: str) -> dict[str, str]:
    pieces = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {piece.splitlines()[0][3:].strip(): piece.rstrip("\n") + "\n" for piece in pieces}


def trial_lines(split: str, trial: Trial) -> Iterator[str]:
    """One line of JSON a stage."""
    for stage, measured in trial.measured.items():
        row: dict[str, object] = {"collection": trial.collection.name, "stage": stage, "split": split}
        for name in MEASURES:
            one = measured.estimate(name)
            row[name] = {"mean": round(one.mean, 5), "low": round(one.low, 5), "high": round(one.high, 5)}
        yield json.dumps(row | {"coverage": measured.coverage})


def target_lines(origin: Origin, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line of JSON a target."""
    for one in verdicts:
        row = {"target": one.target, "passed": one.passed, "measured": one.measured, "split": origin.split}
        yield json.dumps(row | {"commit": origin.commit, "model": origin.model})


def _word(passed: bool | None) -> str:
    return "not measured" if passed is None else "pass" if passed else "**fail**"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
