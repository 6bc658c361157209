"""How well the router chooses: `python -m services.orchestrator.trials.router [--questions NAME] [--calibrate]`.

Prints a table in Markdown. `--calibrate` fits the confidence on examples and development questions (choice.py) and
writes calibration.yaml; it needs scipy (group evaluation) and minutes. `--vectors` writes the vectors of the examples,
which must be done whenever these change, and nothing else. `--bfcl FOLDER` prints the choice by description
only, on BFCL's questions, and nothing else.
"""

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from services.orchestrator.routing import shipped
from services.orchestrator.routing.choice import Calibration
from services.orchestrator.routing.embedding_router import EmbeddingRouter
from services.orchestrator.routing.encoder import Encoded, QueryEncoder
from services.orchestrator.routing.examples import examples_of
from services.orchestrator.routing.router import Asked, Route
from services.orchestrator.routing.wording import punctuated
from services.orchestrator.tool_maker import default_descriptions
from services.orchestrator.trials import router_bfcl, router_calibration
from services.orchestrator.trials.embedding_process import embedding
from services.orchestrator.trials.router_cases import Case, Judged, defaults_of, read, tools_of
from services.runtime.tenants import TenantDirectory

# The day on which the questions are asked.
TODAY = date(2026, 7, 15)
MIN_CONFIDENCE = 0.65
_ROOT = Path(__file__).parents[3]
_QUESTIONS = _ROOT / "tests" / "data" / "routing"
_ROUTING = _ROOT / "services" / "orchestrator" / "routing"
_CALIBRATION = _ROUTING / "calibration.yaml"
_BINS = 5


@dataclass
class Timed:
    """An encoder whose time is taken."""

    encoder: QueryEncoder
    seconds: list[float] = field(default_factory=list[float])

    async def encode(self, texts: Sequence[str], seconds: float) -> Encoded:
        """See QueryEncoder."""
        started = time.perf_counter()
        try:
            return await self.encoder.encode(texts, seconds)
        finally:
            self.seconds.append(time.perf_counter() - started)


@dataclass(frozen=True)
class Trial:
    """`whole` and `encoding` are seconds a question."""

    judged: Sequence[Judged]
    whole: Sequence[float]
    encoding: Sequence[float]


async def run(
    encoder: QueryEncoder, tenants: TenantDirectory, cases: Sequence[Case], calibration: Calibration | None = None
) -> Trial:
    """Routes each question, one after another."""
    timed = Timed(encoder)
    router = EmbeddingRouter(
        timed, tenants, min_confidence=MIN_CONFIDENCE, today=lambda: TODAY, calibration=calibration
    )
    names = dict.fromkeys(case.tenant for case in cases)
    tools = {name: tools_of(tenants.all().get(name)) for name in names}
    for name in names:
        await router.route(Asked(name, "hello", tools[name]), 120)  # it learns first
    judged: list[Judged] = []
    whole: list[float] = []
    encoding: list[float] = []
    for case in cases:
        timed.seconds.clear()
        started = time.perf_counter()
        asked = Asked(case.tenant, case.question, tools[case.tenant], case.earlier)
        route = await router.route(asked, 10)
        whole.append(time.perf_counter() - started)
        encoding.append(sum(timed.seconds))  # a sum is not encoded
        judged.append(Judged(case, route, MIN_CONFIDENCE))
    await router.close()
    return Trial(judged, whole, encoding)


async def baselines(encoder: QueryEncoder, cases: Sequence[Case]) -> Mapping[str, list[Judged]]:
    """What a constant answer and the nearest of our own descriptions would do."""
    names = ("vector_search", "sql_query", "web_search")
    described = (await encoder.encode([default_descriptions()[name] for name in names], 60)).vectors
    found: dict[str, list[Judged]] = {"always vector_search": [], "nearest description": []}
    for case in cases:
        (vector,) = (await encoder.encode([case.question], 60)).vectors
        nearest = names[int(np.argmax(described @ vector))]
        for name, tool in (("always vector_search", names[0]), ("nearest description", nearest)):
            found[name].append(Judged(case, Route(confidence=1, tools=(tool,)), MIN_CONFIDENCE))
    return found


def line(name: str, judged: Sequence[Judged], defaults: Mapping[str, Mapping[str, Any]]) -> str:
    """A row of the table."""
    routed = [one for one in judged if one.routed]
    none = [one for one in judged if not one.case.calls]
    arguments = [right for one in routed for right in one.arguments(defaults)]
    queries = [right for one in routed for right in one.queries()]
    cells = [
        name,
        str(len(judged)),
        _share([one.right for one in routed]),
        _share([not one.routed for one in judged]),
        _share([one.routed and one.right for one in none]),
        _share([one.routed and not one.named for one in judged if one.case.calls]),
        f"{_share(arguments)} ({len(arguments)})" if arguments else "–",
        f"{_share(queries)} ({len(queries)})" if queries else "–",
        _share([one.right and one.routed for one in judged]),
    ]
    return f"| {' | '.join(cells)} |"


def _share(values: Sequence[bool]) -> str:
    return f"{sum(values) / len(values):.3f}" if values else "–"


def per_tool(judged: Sequence[Judged]) -> list[str]:
    """Precision and recall of each tool, over the questions that were decided."""
    routed = [one for one in judged if one.routed]
    rows = ["| tool | needed | precision | recall |", "|---|---|---|---|"]
    for name in sorted({name for one in routed for name in (*one.case.tools, *one.named)}):
        both = sum(name in one.named and name in one.case.tools for one in routed)
        said, needed = (sum(name in names for names in group) for group in _names(routed))
        rows.append(f"| {name} | {needed} | {both / max(said, 1):.3f} | {both / max(needed, 1):.3f} |")
    return rows


def _names(routed: Sequence[Judged]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    return [one.named for one in routed], [one.case.tools for one in routed]


def calibration_error(judged: Sequence[Judged]) -> float:
    """Expected calibration error (Naeini et al. 2015) over bins with equally many questions each."""
    ordered = sorted(judged, key=lambda one: one.route.confidence)
    size = max(1, -(-len(ordered) // _BINS))
    bins = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    gaps = [abs(sum(one.route.confidence - one.right_source for one in group)) for group in bins]
    return sum(gaps) / max(len(ordered), 1)


def report(trial: Trial, others: Mapping[str, list[Judged]], defaults: Mapping[str, Mapping[str, Any]]) -> str:
    """The table."""
    judged = trial.judged
    groups: dict[str, Sequence[Judged]] = {"router": judged}
    groups |= {f"router, {name}": [one for one in judged if one.case.language == name] for name in ("es", "en")}
    strata = dict.fromkeys(one.case.stratum for one in judged)
    groups |= {f"router, {name}": [one for one in judged if one.case.stratum == name] for name in strata}
    titles = (
        "",
        "questions",
        "tools right, of decided",
        "left to the model",
        "no tool right",
        "tool needed, none seen",
    )
    head = f"| {' | '.join((*titles, 'arguments right', 'queries right', 'right of all'))} |"
    encoding = np.array(trial.encoding) * 1000
    own = np.array(trial.whole) * 1000 - encoding
    latency = [
        f"{name}: p50 {np.percentile(values, 50):.1f} ms, p95 {np.percentile(values, 95):.1f} ms"
        for name, values in (("with embedding", own + encoding), ("without", own))
    ]
    rows = [head, "|---|---|---|---|---|---|---|---|---|"]
    rows += [line(name, group, defaults) for name, group in {**groups, **others}.items()]
    rows += ["", *per_tool(judged), "", f"Expected calibration error {calibration_error(judged):.3f}.", *latency]
    return "\n".join(rows)


def wrong(judged: Sequence[Judged], defaults: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each question that is not right, for whoever improves the examples."""
    return [
        f"{one.case.id} {one.case.history[:1] or ''} {one.case.question} | {one.named} for {one.case.tools} | "
        f"{one.route.confidence:.2f} "
        f"{one.route.reason} {dict(one.route.scores)} {[call.arguments_json for call in one.route.calls]}"
        for one in judged
        if not (one.routed and one.right and all(one.arguments(defaults)) and all(one.queries()))
    ]


async def _write_vectors(encoder: QueryEncoder) -> None:
    texts = list(dict.fromkeys(punctuated(text) for _, text in examples_of(None, {})))
    vectors = await router_calibration.encoded(encoder, texts)
    shipped.write(_ROUTING, texts, Encoded((await encoder.encode(texts[:1], 60)).model, vectors))


def _write_calibration(made: Calibration) -> None:
    kept = [text for text in _CALIBRATION.read_text(encoding="utf-8").splitlines() if text.startswith("#")]
    lines = [*kept, f"fits: {made.fits}", "weights:", *(f"  {name}: {value}" for name, value in made.weights.items())]
    _CALIBRATION.write_text("\n".join(lines) + "\n", encoding="utf-8")


async def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m services.orchestrator.trials.router", description=__doc__)
    parser.add_argument(
        "--questions", choices=("dev", "companies", "several", "follow_ups", "test", "several_test"), default="test"
    )
    parser.add_argument("--calibrate", action="store_true", help="fit on the development questions, and write")
    parser.add_argument("--show", action="store_true", help="list what is not right (development only)")
    parser.add_argument("--vectors", action="store_true", help="write the vectors of the examples, and end")
    parser.add_argument("--bfcl", type=Path, help="folder of BFCL's files")
    options = parser.parse_args()
    questions = "dev" if options.calibrate else options.questions
    strangers = questions in ("companies", "several", "several_test")
    tenants = TenantDirectory(_QUESTIONS / "tenants" if strangers else _ROOT / "demo" / "tenant_files")
    defaults = defaults_of(*tenants.all().values())
    cases = read(_QUESTIONS / f"{questions}.jsonl")
    async with embedding() as encoder:
        if options.bfcl:
            print(await router_bfcl.report(encoder, options.bfcl))
            return
        if options.vectors:
            await _write_vectors(encoder)
            return
        trial = await run(encoder, tenants, cases)
        if options.calibrate:
            others = [*read(_QUESTIONS / "companies.jsonl"), *read(_QUESTIONS / "several.jsonl")]
            made = await router_calibration.fit(encoder, tenants.all()["demo"], [*cases, *others], trial.judged)
            _write_calibration(made.calibration)
            trial = await run(encoder, tenants, cases, made.calibration)
            print("\n".join(made.report(MIN_CONFIDENCE)))
        print(report(trial, await baselines(encoder, cases), defaults))
        if options.show and "test" not in options.questions:
            print("\n".join(wrong(trial.judged, defaults)))


if __name__ == "__main__":
    asyncio.run(main())
