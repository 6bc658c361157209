"""The plots of docs/performance.md, as SVG that is readable by day and by night."""

from collections.abc import Callable, Mapping
from typing import Any

import matplotlib as mpl
from matplotlib import figure as figures
from matplotlib import ticker as tickers

from services.runtime.plots import INK, STYLE, standing_alone, svg

# Colours that no plot would use; the picture's own style puts others in their place.
_OURS, _PEER = "#010204", "#010205"
_VARIABLES: Mapping[str, str] = {INK: "ink", _OURS: "ours", _PEER: "peer"}
_CSS = """svg { --ink: #3d444d; --ours: #0969da; --peer: #bf6a02 }
@media (prefers-color-scheme: dark) { svg { --ink: #b7bdc8; --ours: #58a6ff; --peer: #f0a33e } }"""
_STYLE: Mapping[str, Any] = {**STYLE, "axes.edgecolor": INK, "axes.spines.left": True, "legend.frameon": False}
# Their types are not strict ones.
_mpl: Any = mpl
_Figure: Any = figures.Figure
_ticker: Any = tickers

_EXACT = "exact search in numpy"
_SIZES = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000}
# What is drawn, in this order, with which ratio: the processor's time where both sides work in processes of their own.
_PEERS = (
    ("document_embedding_int8", "document embedding", "cpu_ratio"),
    ("cross_encoder_int8", "cross-encoder", "cpu_ratio"),
    ("query_embedding_beside_int8", "query embedding", "cpu_ratio"),
    ("hybrid_search_10k", "hybrid search, 10,000", "cpu_ratio"),
    ("late_interaction_20", "late interaction", "cpu_ratio"),
    ("semantic_cache_near", "near-equal question", "ratio"),
    ("agent_loop", "agent's loop", "cpu_ratio"),
    ("gateway_added", "gateway, added time", "ratio"),
    ("gateway_full_load", "gateway, full load", "ratio"),
)

Figures = Mapping[str, Mapping[str, Any]]


def plots(kept: Figures) -> dict[str, str]:
    """By file name; those for which there are figures."""
    drawn = {"performance-search.svg": _search(kept), "performance-peers.svg": _peers(kept)}
    return {name: plot for name, plot in drawn.items() if plot}


def _search(kept: Figures) -> str:
    """Time of a hybrid search by the number of chunks."""
    found = {count: kept.get(f"hybrid_search_{name} / {_EXACT}") for name, count in _SIZES.items()}
    there = {count: fields for count, fields in found.items() if fields is not None}
    if len(there) < 2:
        return ""

    def draw(axes: Any) -> None:
        counts = list(there)
        for label, colour, style, values in (
            ("hybrid search p50", _OURS, "-", [fields["p50"] for fields in there.values()]),
            ("hybrid search p99", _OURS, ":", [fields["p99"] for fields in there.values()]),
            ("comparing all p50", _PEER, "-", [fields["peer"]["p50"] for fields in there.values()]),
        ):
            axes.plot(counts, values, style, color=colour, marker="o", markersize=4, label=label)
        axes.set(xscale="log", yscale="log", xlabel="chunks", ylabel="ms")
        axes.yaxis.set_major_formatter(_ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.minorticks_off()
        axes.legend()

    return _svg(draw, 2.6, "Time of a hybrid search by the number of chunks")


def _peers(kept: Figures) -> str:
    """Ours as a share of each peer's, with intervals."""
    rows: list[tuple[str, float, float, float]] = []
    for name, label, kind in _PEERS:
        for fields in kept.values():
            if fields["name"] == name and kind in fields:
                interval = (fields[kind], fields[f"{kind}_low"], fields[f"{kind}_high"])
                rows.append((f"{label} / {fields['peer']['name']}", *interval))
    if not rows:
        return ""

    def draw(axes: Any) -> None:
        for place, (_, value, low, high) in enumerate(reversed(rows)):
            axes.plot([low, high], [place, place], color=_OURS, linewidth=3, alpha=0.4, solid_capstyle="round")
            axes.plot([value], [place], "o", color=_OURS, markersize=5)
            axes.annotate(f"{value:.2f}", (high, place), (6, -3), textcoords="offset points")
        axes.axvline(1, color=_PEER, linewidth=1.2)
        axes.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
        axes.set(xscale="log", xlabel="ours / the peer's; left of the line ours takes less")
        axes.xaxis.set_major_formatter(_ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(_ticker.NullFormatter())
        axes.margins(x=0.15)

    return _svg(draw, 0.8 + 0.24 * len(rows), "Cost of ours in proportion to each peer's")


def _svg(draw: Callable[[Any], None], inches: float, title: str) -> str:
    with _mpl.rc_context(dict(_STYLE)):
        picture = _Figure(figsize=(6.4, inches), layout="constrained")
        draw(picture.subplots())
        return standing_alone(svg(picture, title, _VARIABLES, tight=False), _CSS)
