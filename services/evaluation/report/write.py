"""Writes a report: one HTML file that needs nothing else, and Markdown."""

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from services.evaluation.golden.sets import write_text
from services.evaluation.report import plots
from services.evaluation.report.view import View
from services.evaluation.score import Mean

HTML, MARKDOWN = "report.html", "report.md"


def write(view: View, folder: Path) -> tuple[Path, Path]:
    """Both forms, into `folder`. Raises OSError."""
    paths = folder / HTML, folder / MARKDOWN
    write_text(paths[0], html(view))
    write_text(paths[1], markdown(view))
    return paths


def html(view: View) -> str:
    """A page for any width, light or dark as the reader's machine is. Texts of answers are shown, never rendered."""
    means = {one.variant: one.means for one in view.variants}
    drawn = {"scores": plots.scores(means, [row.metric for row in view.rows]), "times": plots.times(view.times)}
    return _templates().get_template("report.html.j2").render(view=view, plots=drawn)


def markdown(view: View) -> str:
    """For a repository or a pull request."""
    return _templates().get_template("report.md.j2").render(view=view)


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("services.evaluation.report", "templates"),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",), default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"figure": figure, "interval": interval, "words": words, "cell": cell, "share": share}
    made.filters.update(filters)
    return made


def figure(value: float | None) -> str:
    """Three digits."""
    return "–" if value is None else f"{value:.3f}"


def interval(mean: Mean | None) -> str:
    """`[low, high]`."""
    return "" if mean is None or mean.low is None else f"[{figure(mean.low)}, {figure(mean.high)}]"


def share(value: float | None) -> str:
    """Percent."""
    return "–" if value is None else f"{value:.0%}"


def words(name: str) -> str:
    """A metric's name for people."""
    return name.replace("_", " ")


def cell(text: str) -> str:
    """A text inside of a Markdown table."""
    return " ".join(str(text).replace("|", "\\|").split())
