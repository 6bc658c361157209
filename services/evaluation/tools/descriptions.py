"""Which tools are taken for each other, with their descriptions side by side: look there before the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.evaluation.tools.accuracy import NONE, OfTool, Selection, Share

# The least accuracy for production.
THRESHOLD = 0.85


@dataclass(frozen=True)
class Confused:
    """`count` times one tool was called where another was expected."""

    expected: str
    called: str
    count: int
    expected_description: str
    called_description: str


def confused(selection: Selection, descriptions: Mapping[str, str]) -> list[Confused]:
    """The pairs, most frequent first. A call where none was due, and none where one was, are pairs with NONE."""
    cells = [(cell, count) for cell, count in selection.confusion.items() if cell[0] != cell[1]]
    ordered = sorted(cells, key=lambda one: (-one[1], one[0]))
    return [
        Confused(expected, called, count, descriptions.get(expected, ""), descriptions.get(called, ""))
        for (expected, called), count in ordered
    ]


def below_threshold(selection: Selection) -> bool:
    """Whether the descriptions should be looked at."""
    value = selection.accuracy.value
    return value is not None and value < THRESHOLD


def markdown(selections: Mapping[str, Selection], descriptions: Mapping[str, str]) -> str:
    """A report: what was measured first, then whatever it is compared with, such as baselines."""
    first = next(iter(selections.values()))
    parts = [_figures(selections), _of_tools(first.tools), _matrix(first)]
    if below_threshold(first):
        parts.append(_pairs(confused(first, descriptions)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _figures(selections: Mapping[str, Selection]) -> str:
    names = ("accuracy", "covered", "no_tool", "arguments", "calls", "parallel", "valid")
    labels = (
        "",
        "questions",
        "tools right (TSA)",
        "right ones among them",
        "no-tool right",
        "arguments right",
        "calls right",
        "parallel recall",
        "valid calls",
        "no answer",
        "not judged",
    )
    lines = [_row(labels), _row(["---"] * len(labels))]
    for name, one in selections.items():
        figures = [_share(getattr(one, each)) for each in names]
        lines.append(_row([name, str(one.question_count), *figures, str(one.missing_count), str(one.unjudged_count)]))
    return "\n".join(lines)


def _of_tools(tools: Mapping[str, OfTool]) -> str:
    if not tools:
        return ""
    labels = ("tool", "expected", "called", "precision", "recall")
    lines = [_row(labels), _row(["---"] * len(labels))]
    for name, one in tools.items():
        lines.append(
            _row([f"`{name}`", str(one.expected), str(one.called), _number(one.precision), _number(one.recall)])
        )
    return "\n".join(lines)


def _matrix(selection: Selection) -> str:
    """Rows: what was expected; columns: what was called."""
    names = [*selection.tools, NONE]
    lines = [_row(["expected ↓ called →", *names]), _row(["---"] * (len(names) + 1))]
    for expected in names:
        counts = [selection.confusion.get((expected, called), 0) for called in names]
        lines.append(_row([expected, *(str(count) if count else "·" for count in counts)]))
    return "\n".join(lines)


def _pairs(found: Sequence[Confused]) -> str:
    parts = [f"Below {THRESHOLD}: look at these descriptions before the model."]
    for one in found:
        parts.append(f"**{one.expected}** was expected, **{one.called}** was called, {one.count} times:")
        if NONE not in (one.expected, one.called):
            texts = [" ".join(each.split()) or "–" for each in (one.expected_description, one.called_description)]
            parts.append("\n".join([_row([one.expected, one.called]), _row(["---", "---"]), _row(texts)]))
    return "\n\n".join(parts)


def _share(share: Share) -> str:
    return f"{_number(share.value)} ({share.whole})" if share.whole else "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
