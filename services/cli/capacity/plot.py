"""Answer time by the number of people: formula, simulated mean and p95."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from services.cli.capacity.planning import Installation
from services.cli.capacity.simulation import simulate

_POINTS = 7
_ANSWERS = 1500


def draw(installation: Installation, users: int, path: Path) -> None:
    """Writes a picture (svg, png or pdf by its name). `users`: where the plan's ceiling is."""
    import matplotlib
    from matplotlib.figure import Figure

    steps = [max(1, round(users * 1.4 * number / _POINTS)) for number in range(1, _POINTS + 1)]
    simulated = [simulate(installation, step, answers=_ANSWERS) for step in steps]
    series: Sequence[tuple[str, str, Sequence[float]]] = (
        ("formula, mean", "-", [installation.answer_seconds(installation.answers_per_second(step)) for step in steps]),
        ("simulated, mean", "o", [one.mean for one in simulated]),
        ("simulated, p95", "^", [one.percentile(0.95) for one in simulated]),
    )
    figure = Figure(figsize=(7, 4), layout="constrained")
    # Its methods are only half typed.
    axes = cast(Any, figure.subplots())
    for label, style, values in series:
        axes.plot(steps, values, style, label=label)
    axes.axvline(users, linestyle=":", color="grey", label=f"planned: {users}")
    axes.set_xlabel("people")
    axes.set_ylabel("seconds an answer")
    axes.set_ylim(bottom=0)
    axes.legend()
    with cast(Any, matplotlib).rc_context({"svg.hashsalt": "capacity"}):  # the same picture of the same numbers
        cast(Any, figure).savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
