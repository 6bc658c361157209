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
    """Adds the figures to those that are kept, each with its moment and revision, and writes the page."""
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
    """p50 and p95 of each scenario of a load test, in ms from when a question was due, beside its budget.

    `model` is the p50 of what the model took of an answer, `rest` that of all else; None where nobody told. `median`:
    of this p50 to that of the scenario `of`, in `times` and in no more than `most`.
    """
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    lines = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    samples: dict[str, list[Mapping[str, Any]]] = {}
    for sample in map(json.loads, lines):
        if not sample["warm_up"] and not sample["problem"] and not sample["refused"]:
            samples.setdefault(sample["scenario"], []).append(sample)
    rows = {one["name"]: _answers(one, samples[one["name"]]) for one in about["scenarios"] if one["name"] in samples}
    judged = {one["scenario"] for one in about.get("verdict", []) if one["what"] == "median"}
    for one in about["scenarios"]:
        median = one.get("median")
        if median and one["name"] in judged & rows.keys() and median["of"] in rows:
            whole = rows[median["of"]]["p50"]
            rows[one["name"]]["median"] = {
                "of": median["of"],
                "most": median["times"],
                "times": round(rows[one["name"]]["p50"] / whole, 2),
            }
    facts = {"at": about["started_at"], "profile": about["profile"], "revision": about.get("revision", "")}
    return {**facts, "rows": list(rows.values())}


def _answers(scenario: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    times = [1000 * (one["ended"] - one["due"]) for one in samples]
    told = [(time, one["stages_ms"]["model"]) for time, one in zip(times, samples, strict=True) if _tells_model(one)]
    return {
        "scenario": scenario["name"],
        "budget": scenario["budgets"]["answer"]["p95"],
        "p50": round(percentile(times, 50)),
        "p95": round(percentile(times, 95)),
        "model": round(percentile([model for _, model in told], 50)) if told else None,
        "rest": round(percentile([time - model for time, model in told], 50)) if told else None,
        "n": len(times),
    }


def _tells_model(sample: Mapping[str, Any]) -> bool:
    return "model" in (sample.get("stages_ms") or {})


def answers_table(answers: Mapping[str, Any] | None) -> str:
    """The latencies of answers."""
    if not answers:
        return "## Answers\n\nNot measured yet: `make load`, then `make bench-table RUN=folder`.\n"
    revision = f", revision {_short(answers['revision'])}" if answers.get("revision") else ""
    lines = [
        f"## Answers\n\nProfile `{answers['profile']}`, {answers['at']}{revision}, in ms from when a question was due."
        " *Model* is what it took of an answer, *rest* all that came on top.\n",
        "| scenario | budget p95 | p50 | p95 | model p50 | rest p50 | n | |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    whole = {row["scenario"]: row["p50"] for row in answers["rows"]}
    for row in answers["rows"]:
        cells = [row["scenario"], *(_whole(row.get(name)) for name in ("budget", "p50", "p95", "model", "rest"))]
        lines.append(f"| {' | '.join(cells)} | {row['n']} | {_answers_verdict(row, whole)} |")
    return "\n".join(lines) + "\n"


def _answers_verdict(row: Mapping[str, Any], whole: Mapping[str, float]) -> str:
    """Whether it was reached; by how much not, and whose the time is."""
    budget, model, said = row["budget"], row.get("model"), list[str]()
    if budget is not None and row["p95"] <= budget:
        said.append("reached")
    elif budget is not None:
        said.append(f"missed: {row['p95'] / budget:.2f} ×")
        if row["p50"] <= budget:
            said.append(f"the median keeps it, p95 lies {row['p95'] - row['p50']} ms above that")
        elif model is not None and model < budget:
            said.append(f"the model leaves {budget - model:.0f} ms for the rest, whose median is {row['rest']} ms")
        elif model is not None:
            said.append("the model's turns alone take longer")
    if median := row.get("median"):
        is_kept = median["times"] <= median["most"]
        said.append(f"its median is {median['times']:.2f} × that of {median['of']}, wanted {median['most']:g} ×")
        alone = 0.0 if model is None else model / whole[median["of"]]
        if not is_kept and alone > median["most"]:
            said.append(
                f"missed: the model's own turns alone are {alone:.2f} × of it, more than {median['most']:g} ×, so it"
                " cannot be met while all turns are made"
            )
        else:
            said.append("reached" if is_kept else "missed")
    return "; ".join(said)


def targets_table(figures: Figures) -> str:
    """Each target, and whether it was reached."""
    lines = [
        "## Parts\n", "| part | target | figure | n | load | measured | |", "|---|---|---|---|---|---|---|",
        *(_target_row(target, figures) for target in TARGETS),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _target_row(target: Target, figures: Figures) -> str:
    value, fields = target.value(figures), figures.get(target.key, {})
    sign, limit = ("≥" if target.at_least else "≤"), _said(target.limit, target.unit)
    if value is None:
        verdict = "not measured" + (f": {target.why_not}" if target.why_not else "")
        return f"| {target.what} | {sign} {limit} | – | | | | {verdict} |"
    verdict = "reached"
    if not target.reached(value):
        verdict = f"missed: {target.times(value):.2f} ×" + (f"; {target.why}" if target.why else "")
        verdict += "; the machine was busy, measure again" if fields["load"] > _BUSY else ""
    said = _said(value, target.unit) + _interval(fields, target.field)
    cells = [target.what, f"{sign} {limit}", said, str(fields.get("n", "")), str(fields["load"]), _day(fields), verdict]
    return f"| {' | '.join(cells)} |"


def peers_table(figures: Figures) -> str:
    """Ours beside each peer, both measured in turn in one run."""
    lines = [
        "## Beside peers\n", "Ratio of the medians with its 95 % interval; below 1 ours takes less.\n",
        "| figure | peer | ours p50 | peer p50 | time | processor's time | n | load | measured |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for fields in figures.values():
        if "ratio" not in fields:
            continue
        peer, unit = fields["peer"], fields["unit"]
        cells = (
            f"`{fields['name']}`", peer["name"], _said(fields.get("p50"), unit), _said(peer.get("p50"), unit),
            _said(fields["ratio"], "×") + _interval(fields, "ratio"),
            _said(fields.get("cpu_ratio"), "×") + _interval(fields, "cpu_ratio"),
            str(fields.get("n", "")), str(fields["load"]), _day(fields),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _day(fields: Mapping[str, Any]) -> str:
    return str(fields.get("at", ""))[:10]


def _short(revision: str) -> str:
    """Ten digits, and whether the tree was another one than that."""
    return revision[:10] + ("+" if revision.endswith("+") else "")


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
    where = "[performance.json](performance.json) has the revision of each figure; `+`: with changes on top"
    return f"{what}, Python {facts['python']}. {where}.\n"


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
