"""Plots as SVG that stands in a page and takes its colours from it: right by day and by night, and text is text."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
from matplotlib import figure as figures
from matplotlib import ticker as tickers

from loadtests.report.figures import Figures, Point, ProcessLine
from services.runtime.plots import INK, SERIES, STYLE, VARIABLES, standing_alone, svg

_BAD, _REFUSED = "#030405", "#040506"
_VARIABLES: Mapping[str, str] = {**VARIABLES, _BAD: "bad", _REFUSED: "refused"}
_STYLE: Mapping[str, Any] = {**STYLE, "axes.grid": True, "grid.linewidth": 0.6, "axes.axisbelow": True}
# Their types are not strict ones.
_mpl: Any = mpl
_Figure: Any = figures.Figure
_ticker: Any = tickers
_WIDTH_INCHES = 4.4
# More steps than these nobody sees.
_MOST_STEPS = 400
_PERCENT_STYLES = {"p50": ":", "p95": "--", "p99": "-."}


def latencies(series: Mapping[str, Sequence[float]], budgets: Mapping[str, float], title: str) -> str:
    """Share of the answers that took so many milliseconds or less, and the budgets by percentile. SVG, or ""."""
    shown = {name: sorted(values) for name, values in series.items() if values}
    if not shown:
        return ""

    def draw(axes: Any) -> None:
        for place, values in enumerate(shown.values()):
            axes.step(*_steps(values), where="post", color=SERIES[place], linewidth=1.8)
        for percent, value in budgets.items():
            axes.axvline(value, color=INK, linewidth=1.2, linestyle=_PERCENT_STYLES[percent])
            share = int(percent[1:]) / 100
            axes.plot([value], [share], color=INK, marker="o", markersize=4)
            axes.annotate(percent, (value, share), xytext=(4, -10), textcoords="offset points")
        _milliseconds(axes.xaxis, [*budgets.values(), *(value for one in shown.values() for value in one)])
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("share of answers")

    said = "; ".join(f"{name}: {_said(values)}" for name, values in shown.items())
    limits = ", ".join(f"{percent} {value:,.0f}" for percent, value in budgets.items())
    return _drawn(draw, 2.4, title, f"{said}.{f' Budgets in ms: {limits}.' if limits else ''}")


def timeline(points: Sequence[Point], title: str, *, wide: bool = False) -> str:
    """p50 and p95 over the run, and below them a bar for what failed or was refused. SVG, or ""."""
    answered = [one for one in points if one.p95 is not None]
    bad = [one for one in points if one.failed_count or one.refused_count]
    if not answered and not bad:
        return ""

    def draw(axes: Any) -> None:
        for percent, line in (("p50", "-"), ("p95", "--")):
            axes.plot(
                [one.at for one in answered],
                [getattr(one, percent) for one in answered],
                line,
                color=SERIES[0],
                linewidth=1.5,
                marker="." if len(answered) < 2 else "",
            )
        axes.set_ylim(bottom=0)
        axes.set_ylabel("ms")
        axes.set_xlabel("seconds from the start")
        if bad:
            counts: Any = axes.twinx()
            width = min((b.at - a.at for a, b in pairwise(points)), default=1.0)
            failed = [one.failed_count for one in bad]
            counts.bar([one.at for one in bad], failed, width, color=_BAD)
            counts.bar(
                [one.at for one in bad], [one.refused_count for one in bad], width, bottom=failed, color=_REFUSED
            )
            counts.set_ylim(0, 3 * max(one.failed_count + one.refused_count for one in bad))
            counts.set_ylabel("failed, refused")
            counts.grid(visible=False)
            counts.yaxis.set_major_locator(_ticker.MaxNLocator(3, integer=True))

    worst = max(answered, key=lambda one: one.p95 or 0.0, default=None)
    slowest = f"p95 is at most {worst.p95:,.0f} ms, at {worst.at:,.0f} s" if worst else "nothing was answered"
    failed_count, refused_count = sum(one.failed_count for one in bad), sum(one.refused_count for one in bad)
    return _drawn(draw, 2.2, title, f"{slowest}; {failed_count} failed, {refused_count} refused.", 9.0 if wide else 0)


def stages(rows: Sequence[Figures], names: Sequence[str]) -> str:
    """Mean milliseconds of each stage, a bar a scenario. SVG, or ""."""
    shown = [one for one in rows if one.stages]
    if not shown:
        return ""

    def draw(axes: Any) -> None:
        for place, one in enumerate(shown):
            left = 0.0
            for colour, name in zip(SERIES, names, strict=False):
                value = one.stages.get(name, 0.0)
                axes.barh(place, value, left=left, height=0.6, color=colour)
                left += value
        axes.set_yticks(range(len(shown)), [_folded(one.scenario.name) for one in shown])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.tick_params(length=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("ms, mean")

    said = "; ".join(
        f"{one.scenario.name}: " + ", ".join(f"{name} {value:,.0f}" for name, value in one.stages.items())
        for one in shown
    )
    return _drawn(draw, 0.7 + 0.36 * len(shown), "Where the time goes", f"{said} (ms).")


def token_gaps(rows: Sequence[Figures]) -> str:
    """Time between two pieces of an answer: a bar from median to p95 of the usual, a stroke at p95 of the longest."""
    shown = [one for one in rows if one.gap is not None]
    if not shown:
        return ""

    def draw(axes: Any) -> None:
        for place, one in enumerate(shown):
            if one.gap is None:
                continue
            axes.plot([one.gap.p50, one.gap.p95], [place, place], color=SERIES[0], linewidth=3)
            axes.plot([one.gap.p50], [place], color=SERIES[0], marker="o", markersize=5)
            if one.longest_gap is not None:
                axes.plot([one.longest_gap.p95] * 2, [place - 0.3, place + 0.3], color=INK, linewidth=1.4)
        axes.set_yticks(range(len(shown)), [_folded(one.scenario.name) for one in shown])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.tick_params(length=0)
        _milliseconds(axes.xaxis, [value for one in shown if one.gap for value in (one.gap.p50, one.gap.p95)])

    said = "; ".join(f"{one.scenario.name}: {one.gap.p50:,.1f}" for one in shown if one.gap)
    return _drawn(draw, 0.7 + 0.3 * len(shown), "Between tokens", f"Medians in ms: {said}.")


def processes(
    lines: Sequence[ProcessLine], line: Callable[[ProcessLine], Sequence[tuple[float, float]]], unit: str
) -> str:
    """One measure of each process over time. SVG, or ""."""
    shown = [(colour, one) for colour, one in zip(SERIES, lines, strict=False) if line(one)]
    if not shown:
        return ""

    def draw(axes: Any) -> None:
        for colour, one in shown:
            seconds, values = zip(*line(one), strict=True)
            axes.plot(seconds, values, color=colour, linewidth=1.5, marker="." if len(values) < 2 else "")
        axes.set_ylim(bottom=0)
        axes.set_ylabel(unit)
        axes.set_xlabel("seconds from the start")

    said = "; ".join(f"{one.name}: from {line(one)[0][1]:,.0f} to {line(one)[-1][1]:,.0f}" for _, one in shown)
    return _drawn(draw, 2.4, f"Processes, {unit}", f"{said}.")


def soak(lines: Sequence[ProcessLine], colours: str) -> str:
    """Memory, file descriptors and leases of all processes over time, as a picture that needs no page. SVG, or "".

    `colours`: CSS that sets the page's variables.
    """
    if not any(one.rss_mib for one in lines):
        return ""
    measures = (
        ("MiB of memory", [one.rss_mib for one in lines]),
        ("file descriptors", [one.file_descriptors for one in lines]),
        ("leases held", [one.leases for one in lines]),
    )

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(measures), sharex=True, height_ratios=(3, 2, 1))
        for axes, (unit, drawn) in zip(panels, measures, strict=True):
            for colour, one, values in zip(SERIES, lines, drawn, strict=False):
                if values:
                    axes.plot(*zip(*values, strict=True), color=colour, linewidth=1.3, label=one.name)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(unit)
        panels[-1].set_xlabel("seconds from the start")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)

    with _mpl.rc_context(dict(_STYLE)):
        picture = _Figure(figsize=(8, 6.4), layout="constrained")
        draw(picture)
        said = "; ".join(
            f"{one.name}: {one.rss_mib[0][1]:,.0f} to {one.rss_mib[-1][1]:,.0f}" for one in lines if one.rss_mib
        )
        drawn = svg(picture, f"Processes under load. MiB: {said}.", _VARIABLES, tight=False)
    return standing_alone(drawn, colours)


def _steps(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """A distribution in few enough steps; the last one is the longest answer."""
    count = len(values)
    wanted = (
        range(count) if count <= _MOST_STEPS else [(count - 1) * at // (_MOST_STEPS - 1) for at in range(_MOST_STEPS)]
    )
    return [values[at] for at in wanted], [(at + 1) / count for at in wanted]


def _milliseconds(axis: Any, values: Sequence[float]) -> None:
    """Logarithmic where the values lie far from each other."""
    if min(values) > 0 and max(values) / min(values) > 20:
        axis.axes.set_xscale("log")
        axis.set_minor_formatter(_ticker.NullFormatter())
    axis.set_major_formatter(_ticker.FuncFormatter(_grouped))
    axis.axes.set_xlabel("ms")


def _grouped(value: float, _: int) -> str:
    return f"{value:,.10g}"


def _said(values: Sequence[float]) -> str:
    half, most = values[(len(values) - 1) // 2], values[max(0, -(-len(values) * 95 // 100) - 1)]
    return f"half took {half:,.0f} ms or less, 95 % {most:,.0f} ms"


def _folded(name: str) -> str:
    """In two lines where one would take the room of the bars."""
    if len(name) <= 16 or " " not in name:
        return name
    words = name.split()
    cut = min(range(1, len(words)), key=lambda at: abs(len(" ".join(words[:at])) - len(name) / 2))
    return " ".join(words[:cut]) + "\n" + " ".join(words[cut:])


def _drawn(draw: Callable[[Any], None], height: float, title: str, said: str, width: float = 0) -> str:
    with _mpl.rc_context(dict(_STYLE)):
        figure = _Figure(figsize=(width or _WIDTH_INCHES, height))
        draw(figure.add_subplot())
        return svg(figure, f"{title}. {said}", _VARIABLES)
