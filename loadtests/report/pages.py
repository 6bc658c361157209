"""Writes the pages: one HTML file that needs nothing else, and Markdown."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from loadtests.report import figures, plots
from loadtests.report.comparison import Comparison
from loadtests.report.records import BadFolder, Offered, read

HTML, MARKDOWN = "report.html", "report.md"
COMPARISON_HTML, COMPARISON_MARKDOWN = "comparison.html", "comparison.md"


def write(folder: Path) -> None:
    """Both forms of the run in `folder`, into it. Raises BadFolder, OSError."""
    shown = _run_view(read(folder))
    _put(folder / MARKDOWN, _rendered("report.md.j2", shown))
    _put(folder / HTML, _rendered("report.html.j2", shown | {"plots": _run_plots(shown)}))


def markdown(offered: Offered) -> str:
    """For a terminal, a log or a pull request."""
    return _rendered("report.md.j2", _run_view(offered))


def write_comparison(compared: Comparison, folder: Path) -> None:
    """Both forms, into `folder`. Raises OSError."""
    _put(folder / COMPARISON_MARKDOWN, comparison_markdown(compared))
    drawn = {name: _both(compared, name) for name in dict.fromkeys(row.scenario for row in compared.rows)}
    _put(folder / COMPARISON_HTML, _rendered("comparison.html.j2", {"compared": compared, "plots": drawn}))


def comparison_markdown(compared: Comparison) -> str:
    """For a terminal or a pull request."""
    return _rendered("comparison.md.j2", {"compared": compared})


def write_soak_plot(offered: Offered, path: Path) -> None:
    """What the processes held during a soak, as SVG. Raises BadFolder where none was watched, OSError."""
    css = (Path(__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    drawn = plots.soak(figures.processes_of(offered.run.watched), css[: css.index("* {")].strip())
    if not drawn:
        raise BadFolder(f"no process was watched in this run of {offered.run.file}: name one of `make load-soak`")
    _put(path, drawn)


def _run_view(offered: Offered) -> dict[str, Any]:
    rows = figures.figures_of(offered)
    lines = figures.processes_of(offered.run.watched)
    return {
        "run": offered.run,
        "verdict": sorted(offered.run.verdict, key=lambda one: not one.failed),
        "failed": offered.failed,
        "rows": rows,
        "points": figures.points(offered.samples, figures.bin_seconds(offered)),
        "bin_seconds": figures.bin_seconds(offered),
        "stage_names": _stage_names(rows),
        "problems": figures.problems_of(offered),
        "tenants": figures.tenants_of(offered),
        "processes": lines,
        "ends": {
            one.name: [figures.ends(line) for line in (one.rss_mib, one.file_descriptors, one.leases)] for one in lines
        },
    }


def _stage_names(rows: Sequence[figures.Figures]) -> list[str]:
    """Those of the most time first, what nobody told last."""
    totals: dict[str, float] = {}
    for one in rows:
        for name, value in one.stages.items():
            totals[name] = totals.get(name, 0.0) + value
    return sorted(totals, key=lambda name: (name == figures.REST, -totals[name]))


def _run_plots(shown: Mapping[str, Any]) -> dict[str, Any]:
    rows: Sequence[figures.Figures] = shown["rows"]
    lines: Sequence[figures.ProcessLine] = shown["processes"]
    measures: tuple[tuple[str, Callable[[figures.ProcessLine], Sequence[tuple[float, float]]]], ...] = (
        ("MiB of memory", lambda one: one.rss_mib),
        ("file descriptors", lambda one: one.file_descriptors),
        ("leases held", lambda one: one.leases),
    )
    return {
        "timeline": plots.timeline(shown["points"], "The whole run", wide=True),
        "scenarios": [
            (
                one,
                plots.latencies(
                    {one.scenario.name: one.answers}, one.scenario.budget("answer").said(), one.scenario.name
                ),
                plots.timeline(one.points, f"{one.scenario.name} over time"),
            )
            for one in rows
        ],
        "stages": plots.stages(rows, shown["stage_names"]),
        "gaps": plots.token_gaps(rows),
        "processes": [drawn for unit, line in measures if (drawn := plots.processes(lines, line, unit))],
    }


def _both(compared: Comparison, scenario: str) -> str:
    answers = {
        name: [one.answer_ms for one in offered.of(scenario) if one.is_answered]
        for name, offered in (("first", compared.first), ("second", compared.second))
    }
    return plots.latencies(answers, {}, scenario)


def _put(path: Path, text: str) -> None:
    """Leaves either the old file or the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)


def _rendered(name: str, shown: Mapping[str, Any]) -> str:
    return _templates().get_template(name).render(shown)


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("loadtests.report", "templates"),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",), default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"ms": milliseconds, "share": share, "cell": cell, "signed": signed}
    made.filters.update(filters)
    return made


def milliseconds(value: float | None) -> str:
    """Whole ones, below ten with a digit more."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if abs(value) < 10 else f"{value:,.0f}"


def signed(value: float | None) -> str:
    """A difference."""
    return "–" if value is None else f"{value:+,.1f}" if abs(value) < 10 else f"{value:+,.0f}"


def share(value: float) -> str:
    """Percent, with a digit where it is small."""
    return f"{value:.0%}" if value in (0, 1) else f"{value:.1%}"


def cell(text: str) -> str:
    """A text inside of a Markdown table."""
    return " ".join(str(text).replace("|", "\\|").split())
