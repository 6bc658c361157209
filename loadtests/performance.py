"""Keeps figures, and writes docs/performance.md from them: `python -m loadtests.performance [--run FOLDER]`.

FOLDER is of a run of loadtests.slo: the latencies of answers come from there.
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadtests import machine, performance_plots
from loadtests.baseline import key_of
from loadtests.measuring import percentile
from loadtests.targets import TARGETS, Target

PAGE, KEPT = Path("docs/performance.md"), Path("docs/performance.json")
# Of two cores: beyond that times say more of the others than of us.
_BUSY = 4
_GENERATED = re.compile(r"(<!-- measured -->\n).*(<!-- /measured -->)", re.DOTALL)

Figures = Mapping[str, Mapping[str, Any]]


def keep(found: Sequence[Mapping[str, Any]], folder: Path = Path()) -> None:
    """Adds the figures to those that are kept, each with its moment, and writes the page."""
    kept = _read(folder)
    kept["machine"] = machine.facts()
    kept["figures"] |= {key_of(fields): {**machine.moment(), **fields} for fields in found}
    _write(folder, kept)


def keep_answers(run: Path, folder: Path = Path()) -> None:
    """Takes the latencies from a load test's folder, and writes the page."""
    _write(folder, _read(folder) | {"answers": latencies(run)})


def write(folder: Path = Path()) -> None:
    """The page's tables and plots between its marks, from what is kept."""
    kept = _read(folder)
    plots = performance_plots.plots(kept["figures"])
    for name, plot in plots.items():
        (folder / PAGE.parent / name).write_text(plot, encoding="utf-8")
    pictures = "".join(f"![{Path(name).stem}]({name})\n" for name in plots)
    parts = [_about(kept["machine"]), answers_table(kept.get("answers")), targets_table(kept["figures"])]
    tables = "\n".join([*parts, peers_table(kept["figures"]), pictures])
    page = (folder / PAGE).read_text(encoding="utf-8")
    (folder / PAGE).write_text(_GENERATED.sub(lambda m: f"{m[1]}\n{tables}\n{m[2]}", page), encoding="utf-8")


def latencies(run: Path) -> dict[str, Any]:
    """p50 and p95 of each scenario of a load test, in ms from when a question was due, beside its budget."""
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    lines = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    times: dict[str, list[float]] = {}
    for sample in map(json.loads, lines):
        if not sample["warm_up"] and not sample["problem"] and not sample["refused"]:
            times.setdefault(sample["scenario"], []).append(1000 * (sample["ended"] - sample["due"]))
    rows = [
        {
            "scenario": one["name"],
            "budget": one["budgets"]["answer"]["p95"],
            "p50": round(percentile(times[one["name"]], 50)),
            "p95": round(percentile(times[one["name"]], 95)),
            "n": len(times[one["name"]]),
        }
        for one in about["scenarios"]
        if one["name"] in times
    ]
    return {"at": about["started_at"], "profile": about["profile"], "rows": rows}


def answers_table(answers: Mapping[str, Any] | None) -> str:
    """The latencies of answers."""
    if not answers:
        return "## Answers\n\nNot measured yet: `make load`, then `make bench-table RUN=folder`.\n"
    lines = [
        f"## Answers\n\nProfile `{answers['profile']}`, {answers['at']}, in ms from when the question was due.\n",
        "| scenario | budget p95 | p50 | p95 | n | |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in answers["rows"]:
        budget = row["budget"]
        said = "" if budget is None else "reached" if row["p95"] <= budget else f"missed: {row['p95'] / budget:.2f} ×"
        shown = "–" if budget is None else f"{budget:.0f}"
        lines.append(f"| {row['scenario']} | {shown} | {row['p50']} | {row['p95']} | {row['n']} | {said} |")
    return "\n".join(lines) + "\n"


def targets_table(figures: Figures) -> str:
    """Each target, and whether it was reached."""
    lines = [
        "## Parts\n", "| part | target | figure | n | load | |", "|---|---|---|---|---|---|",
        *(_target_row(target, figures) for target in TARGETS),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _target_row(target: Target, figures: Figures) -> str:
    value, fields = target.value(figures), figures.get(target.key, {})
    sign, limit = ("≥" if target.at_least else "≤"), _said(target.limit, target.unit)
    if value is None:
        return f"| {target.what} | {sign} {limit} | – | | | not measured |"
    verdict = "reached"
    if not target.reached(value):
        verdict = f"missed: {target.times(value):.2f} ×" + (f"; {target.why}" if target.why else "")
        verdict += "; the machine was busy, measure again" if fields["load"] > _BUSY else ""
    said = _said(value, target.unit) + _interval(fields, target.field)
    return f"| {target.what} | {sign} {limit} | {said} | {fields.get('n', '')} | {fields['load']} | {verdict} |"


def peers_table(figures: Figures) -> str:
    """Ours beside each peer, both measured in turn in one run."""
    lines = [
        "## Beside peers\n", "Ratio of the medians with its 95 % interval; below 1 ours takes less.\n",
        "| figure | peer | ours p50 | peer p50 | time | processor's time | n | load |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for fields in figures.values():
        if "ratio" not in fields:
            continue
        peer, unit = fields["peer"], fields["unit"]
        cells = (
            f"`{fields['name']}`", peer["name"], _said(fields.get("p50"), unit), _said(peer.get("p50"), unit),
            _said(fields["ratio"], "×") + _interval(fields, "ratio"),
            _said(fields.get("cpu_ratio"), "×") + _interval(fields, "cpu_ratio"),
            str(fields.get("n", "")), str(fields["load"]),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _said(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{digits} {unit}".strip()


def _interval(fields: Mapping[str, Any], name: str) -> str:
    low, high = fields.get(f"{name}_low"), fields.get(f"{name}_high")
    return "" if low is None or high is None else f" ({low:.3g} to {high:.3g})"


def _about(facts: Mapping[str, Any]) -> str:
    if not facts:
        return "Nothing was measured yet.\n"
    what = f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, Linux {facts['kernel']}"
    return f"{what}, Python {facts['python']}, revision {facts['revision'][:10]}.\n"


def _read(folder: Path) -> dict[str, Any]:
    path = folder / KEPT
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"machine": {}, "figures": {}}


def _write(folder: Path, kept: Mapping[str, Any]) -> None:
    (folder / KEPT).write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.performance", description=__doc__)
    parser.add_argument("--run", type=Path, help="folder of a run of loadtests.slo")
    run = parser.parse_args(arguments).run
    if run is None:
        write()
    else:
        keep_answers(run)


if __name__ == "__main__":
    main()
