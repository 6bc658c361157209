"""How `sabueso evals` shows runs and comparisons: tables for people, JSON for scripts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table

from services.cli.console import out

if TYPE_CHECKING:
    from services.evaluation.runs.compare import Compared
    from services.evaluation.runs.run import Finished

# Of a metric's values, those that may be lost before the mean of the rest is not that of the set.
_LOST_SHARE = 0.05


def show(finished: "Finished") -> None:
    """Metrics by variant, and what was not measured."""
    from services.evaluation.report.thresholds import BOUNDS

    variants = [Column(one.variant, justify="right") for one in finished.summary.variants]
    table = Table(Column("metric", no_wrap=True), Column("bound", no_wrap=True), *variants, box=None)
    for metric in finished.summary.metrics:
        cells = [one.means.get(metric) for one in finished.summary.variants]
        shown = ["" if one is None else "–" if one.mean is None else f"{one.mean:.3f}" for one in cells]
        table.add_row(metric, BOUNDS[metric].text if metric in BOUNDS else "", *shown)
    reviewed = sum(bool(item.reviewer) for item in finished.items)
    answered = [f"{one.answered_count}/{one.asked_count}" for one in finished.summary.variants]
    table.add_row("answered", "", *answered)
    out.print(table)
    out.print(f"reviewed by a person: {reviewed} of {len(finished.items)} questions")
    not_measured: Any = finished.folder.manifest.scoring.get("not_measured") or {}
    if not_measured:
        out.print(f"not measured: {', '.join(f'{name} ({why})' for name, why in not_measured.items())}", soft_wrap=True)


def lost(finished: "Finished") -> list[str]:
    """A line a metric of which the judge, or its budget, has lost too many values."""
    from services.evaluation.score import Status

    found: list[str] = []
    for one in finished.summary.variants:
        for name, mean in one.means.items():
            gone = sum(mean.missing.get(status, 0) for status in (Status.JUDGE_FAILED, Status.OVER_BUDGET))
            if gone > _LOST_SHARE * (of := mean.scored_count + gone):
                found.append(f"{one.variant}: {name}: {gone} of {of} values were lost by the judge or its budget.")
    return found


def facts(finished: "Finished") -> dict[str, Any]:
    """A run, for scripts."""
    manifest = finished.folder.manifest
    variants = [
        {
            "variant": one.variant,
            "asked": one.asked_count,
            "answered": one.answered_count,
            "failures": dict(one.failures),
            "metrics": {
                name: {"mean": mean.mean, "low": mean.low, "high": mean.high, "scored": mean.scored_count}
                | {"missing": {status.value: count for status, count in mean.missing.items()}}
                for name, mean in one.means.items()
            },
        }
        for one in finished.summary.variants
    ]
    kept = {"plan": dict(manifest.plan), "facts": dict(manifest.facts), "scoring": dict(manifest.scoring)}
    items = {"count": len(finished.items), "reviewed": sum(bool(item.reviewer) for item in finished.items)}
    own = {"run_id": manifest.run_id, "folder": str(finished.folder.path), "questions": items}
    return {**own, **kept, "variants": variants}


def compared_facts(one: "Compared", half: str) -> dict[str, Any]:
    """A comparison, for scripts. Of a test half no question is named."""
    difference = one.paired.difference
    return {
        "metric": one.metric,
        "first": one.first,
        "second": one.second,
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "p": one.p_adjusted,
        "pairs": one.unit_count,
        "lost": one.paired.lost_count,
        "verdict": one.verdict.value,
        "pairs_needed": one.needed_units,
        "changed": [] if half == "test" else list(one.changed),
    }


def show_compared(first: str, second: str, found: "Sequence[Compared]") -> None:
    """Comparisons, metric by metric."""
    table = Table("metric", first, second, "difference", "p", "pairs", "verdict", box=None)
    for one in found:
        difference = one.paired.difference
        needed = f"; {one.needed_units} pairs would show it" if one.needed_units else ""
        table.add_row(
            one.metric,
            f"{one.first:.3f}",
            f"{one.second:.3f}",
            f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]",
            f"{one.p_adjusted:.4f}",
            str(one.unit_count),
            f"{one.verdict.value}{needed}",
        )
    out.print(table)
