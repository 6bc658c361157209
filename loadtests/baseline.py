"""Ratios to peers that were committed, and what has become of them. Times are not compared: machines differ."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtests.measuring import percentile

FILE = Path("loadtests/baseline.json")
# So much above all that the baseline's runs showed, and it counts as a regression.
_MARGIN = 1.10
# The processor's time first: it hardly depends on what else the machine does.
_KINDS = ("cpu_ratio", "ratio")

Fields = Mapping[str, Any]


def key_of(fields: Fields) -> str:
    """Name and peer of a figure."""
    return f"{fields['name']} / {fields['peer']['name']}" if "peer" in fields else str(fields["name"])


def ratios(found: Sequence[Fields]) -> dict[str, dict[str, float]]:
    """Those of all figures that have a peer, by key, with their intervals."""
    return {
        key_of(fields): {
            name: fields[name] for kind in _KINDS for name in (kind, f"{kind}_low", f"{kind}_high") if name in fields
        }
        for fields in found
        if "ratio" in fields
    }


def over_runs(runs: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Ratios of several runs as one: the middle one, in an interval that holds those of all.

    An interval of one run tells of its rounds; from run to run, caches and neighbours move a ratio further.
    """
    found: dict[str, dict[str, float]] = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        sides = [run[key] for run in runs if key in run]
        for kind in (kind for kind in _KINDS if all(kind in side for side in sides)):
            found.setdefault(key, {}).update(
                {
                    kind: percentile([side[kind] for side in sides], 50),
                    f"{kind}_low": min(side[f"{kind}_low"] for side in sides),
                    f"{kind}_high": max(side[f"{kind}_high"] for side in sides),
                }
            )
    return found


@dataclass(frozen=True)
class Row:
    """One figure, then and now. `kind` is what was compared; empty where that could not be."""

    key: str
    kind: str
    before: tuple[float, float, float] | None
    now: tuple[float, float, float] | None

    @property
    def verdict(self) -> str:
        """`worse`: a tenth above the baseline's interval, and its own apart from that; `better`: as far below."""
        if not self.kind:
            return "not comparable"
        if self.before is None:
            return "new"
        if self.now is None:
            return "not measured"
        (_, lowest, highest), (middle, low, high) = self.before, self.now
        if middle > _MARGIN * highest and low > highest:
            return "worse"
        return "better" if _MARGIN * middle < lowest and high < lowest else "same"


def compare(before: Mapping[str, Fields], now: Mapping[str, Fields]) -> list[Row]:
    """A row a figure of either."""
    rows: list[Row] = []
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        sides = [side for side in (old, new) if side is not None]
        kind = next((kind for kind in _KINDS if all(kind in side for side in sides)), "")
        if not kind:
            rows.append(Row(key, "", None, None))
            continue
        rows.append(Row(key, kind, *(_interval(side, kind) if side is not None else None for side in (old, new))))
    return rows


def table(rows: Sequence[Row]) -> str:
    """For a terminal."""
    head = ("figure / peer", "compared", "baseline", "now", "")
    lines = [(row.key, row.kind.replace("_", " "), _said(row.before), _said(row.now), row.verdict) for row in rows]
    widths = [max(len(line[at]) for line in (head, *lines)) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *lines)
    )


def read(path: Path = FILE) -> dict[str, Any]:
    """`machine`, `at`, `load`, `runs` and `ratios`."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(runs: Sequence[Sequence[Fields]], about: Fields, path: Path = FILE) -> None:
    """Replaces it."""
    content = {**about, "runs": len(runs), "ratios": over_runs([ratios(found) for found in runs])}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _interval(side: Fields, kind: str) -> tuple[float, float, float]:
    return side[kind], side[f"{kind}_low"], side[f"{kind}_high"]


def _said(interval: tuple[float, float, float] | None) -> str:
    return "–" if interval is None else "{:.3g} ({:.3g} to {:.3g})".format(*interval)
