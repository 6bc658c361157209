"""How a run over the leaderboard's questions is shown: Markdown for people, plain values for scripts."""

from collections.abc import Sequence
from typing import Any

from services.evaluation.runs.folder import Manifest
from services.evaluation.tools.leaderboard import ALL, Figures, macro

COLUMNS = (
    *("category", "questions", "right", "95 % interval", "arguments right", "valid calls", "no tool right"),
    *("first function", "no call", "failed"),
)


def rows(found: Sequence[Figures]) -> list[list[str]]:
    """A row a category, in the order of `COLUMNS`; `–` where there is nothing to tell."""
    made: list[list[str]] = []
    for one in found:
        interval = "–" if one.right.low is None else f"{one.right.low:.3f}–{one.right.high:.3f}"
        figures = [one.selection.arguments.value, one.selection.valid.value, one.selection.no_tool.value]
        cells = [_number(value) for value in (*figures, one.first, one.silent)]
        head = [one.category, str(one.asked_count), _number(one.right.mean), interval]
        made.append([*head, *cells, str(one.failed_count)])
    return made


def markdown(found: Sequence[Figures], manifest: Manifest) -> str:
    """The whole report."""
    plan = manifest.plan
    lines = [
        f"# Function calls: {plan['model']}",
        "",
        f"Asked on {manifest.created_at} at {plan['url']}; questions of BFCL v4 (Patil et al., ICML 2025), judged by "
        "our own matching: a code is compared as it is, where the leaderboard drops case and punctuation.",
        "",
        _row(COLUMNS),
        _row(["---"] * len(COLUMNS)),
        *map(_row, rows(found)),
        "",
        f"Mean of the categories: {_number(macro(found))}. *Right*: every expected call with its arguments and no "
        "other. *First function*, *no call*: what calling the first function without arguments, or none, is right in. "
        "*Valid*: calls that can be read and fit their function's schema. Questions that failed are in no share.",
    ]
    faults = {what: count for one in found if one.category == ALL for what, count in one.faults.items()}
    if faults:
        lines += ["", "## What was wrong", "", _row(["", "questions"]), _row(["---", "---"])]
        lines += [_row([what, str(count)]) for what, count in sorted(faults.items(), key=lambda one: (-one[1], one[0]))]
    return "\n".join(lines) + "\n"


def facts(found: Sequence[Figures]) -> dict[str, Any]:
    """For scripts. What there is no value of is null."""
    return {
        "macro": macro(found),
        "categories": [
            {
                "category": one.category,
                "questions": one.asked_count,
                "failed": one.failed_count,
                "right": one.right.mean,
                "low": one.right.low,
                "high": one.right.high,
                "arguments": one.selection.arguments.value,
                "valid": one.selection.valid.value,
                "no_tool": one.selection.no_tool.value,
                "parallel": one.selection.parallel.value,
                "first_function": one.first,
                "no_call": one.silent,
                "faults": dict(one.faults),
            }
            for one in found
        ],
    }


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
