"""Plots as SVG that stands in a page and takes its colours from it, so that they are right by day and by night."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib import figure as figures
from matplotlib import ticker as tickers

from services.evaluation.report.thresholds import BOUNDS
from services.evaluation.score import Mean
from services.runtime.plots import INK, SERIES, STYLE, svg

# Their types are not strict ones.
_mpl: Any = mpl
_Figure: Any = figures.Figure
_ticker: Any = tickers
_WIDTH_INCHES = 4.4


def scores(means: Mapping[str, Mapping[str, Mean]], metrics: Sequence[str]) -> str:
    """Means with their intervals: a row a metric, a colour a variant, a tick where the alarm is. SVG, or ""."""
    shown = [name for name in metrics if any(_has(of, name) for of in means.values())]
    if not shown:
        return ""
    with _mpl.rc_context(dict(STYLE)):
        figure = _Figure(figsize=(_WIDTH_INCHES, 0.6 + len(shown) * (0.22 + 0.1 * len(means))))
        axes: Any = figure.add_subplot()
        for series, of in enumerate(means.values()):
            offset = (series - (len(means) - 1) / 2) * 0.7 / max(1, len(means))
            for place, name in enumerate(shown):
                if _has(of, name):
                    _point(axes, of[name], place + offset, SERIES[series % len(SERIES)])
        for place, name in enumerate(shown):
            if name in BOUNDS:
                axes.plot([BOUNDS[name].value] * 2, [place - 0.42, place + 0.42], color=INK, linewidth=1.4)
        axes.set_yticks(range(len(shown)), [name.replace("_", " ") for name in shown])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        low = min([0.0, *(of[name].low or 0.0 for of in means.values() for name in shown if _has(of, name))])
        axes.set_xlim(low - 0.02, 1.02)
        axes.grid(axis="x", linewidth=0.6)
        axes.tick_params(length=0)
        return svg(figure, "Means of the metrics with 95 % intervals")


def times(milliseconds: Mapping[str, Sequence[float]]) -> str:
    """Share of the answers that took so long or less, a line a variant, on a logarithmic axis. SVG, or ""."""
    series = {name: sorted(values) for name, values in milliseconds.items() if values}
    if not series:
        return ""
    with _mpl.rc_context(dict(STYLE)):
        figure = _Figure(figsize=(_WIDTH_INCHES, 2.6))
        axes: Any = figure.add_subplot()
        names = list(milliseconds)
        for name, values in series.items():
            shares = [(place + 1) / len(values) for place in range(len(values))]
            axes.step(values, shares, where="post", color=SERIES[names.index(name) % len(SERIES)], linewidth=1.8)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("milliseconds")
        axes.set_ylabel("share of answers")
        axes.grid(linewidth=0.6)
        axes.xaxis.set_major_formatter(_ticker.FuncFormatter(_grouped))
        axes.xaxis.set_minor_formatter(_ticker.NullFormatter())
        return svg(figure, "How long answers took")


def _grouped(value: float, _: int) -> str:
    return f"{value:,.0f}"


def _has(means: Mapping[str, Mean], name: str) -> bool:
    return name in means and means[name].mean is not None


def _point(axes: Any, mean: Mean, height: float, colour: str) -> None:
    axes.plot([mean.low, mean.high], [height, height], color=colour, linewidth=1.8, solid_capstyle="round")
    axes.plot([mean.mean], [height], color=colour, marker="o", markersize=5)
