"""Plots as SVG that takes its colours from where it stands: right by day and by night, and text is text.

For evaluation and the load tests; no other image holds what it loads.
"""

import html
import io
import re
import zlib
from collections.abc import Mapping
from typing import Any

# Colours that no plot would use, and the variables that stand in their place.
INK, FAINT = "#010203", "#020304"
SERIES = tuple(f"#0a0b{place:02x}" for place in range(16))
VARIABLES: Mapping[str, str] = {INK: "ink", FAINT: "line"} | {one: f"s{at}" for at, one in enumerate(SERIES)}
# Settings of matplotlib.
STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sabueso",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def svg(figure: Any, label: str, variables: Mapping[str, str] = VARIABLES, *, tight: bool = True) -> str:
    """A figure of matplotlib for a page, without prologue and fixed size.

    `label` is read aloud. `variables`: those of CSS, by the colours that they replace. `tight`: cut to what is drawn.
    """
    written = io.StringIO()
    figure.savefig(written, format="svg", bbox_inches="tight" if tight else None, metadata={"Date": None})
    text = written.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r' (?:height|width)="[^"]*"', "", head)
    for colour, name in variables.items():
        rest = rest.replace(colour, f"var(--{name})")
    label = html.escape(label, quote=True)
    # Ids of several plots in one page must not meet.
    mark = f"p{zlib.crc32(label.encode()):x}"
    return f'{head} role="img" aria-label="{label}">' + re.sub(r'(id="|url\(#|href="#)', rf"\1{mark}-", rest)


def standing_alone(picture: str, css: str) -> str:
    """The same as a file: with `css` that sets the variables, and without blanks at the ends of lines."""
    head, rest = picture.split(">", 1)
    return "\n".join(line.rstrip() for line in f"{head}><style>{css}</style>{rest}".splitlines()) + "\n"
