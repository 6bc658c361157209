"""Scores the records of a run: without a judge what can be had without, with one the rest."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from services.evaluation.golden.item import Item
from services.evaluation.judge.judge import Judge
from services.evaluation.metrics import catalogue, noise_sensitivity
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.metrics.metric import Metric
from services.evaluation.runs import deterministic
from services.evaluation.runs.record import Record, Scored
from services.evaluation.runs.variant import Kind, Variant
from services.evaluation.score import Score
from services.evaluation.tools.accuracy import Judged, judge
from services.evaluation.tools.assignment import Assigner

# Without an answer these say nothing.
_OF_ANSWERS = frozenset({"faithfulness", "answer_relevance", "completeness"})
NOISE = noise_sensitivity.NAME


@dataclass(frozen=True)
class Judging:
    """What judges a run, where something does. `names`: metrics wanted; empty: all."""

    judge: Judge | None = None
    embedder: Embedder | None = None
    names: frozenset[str] = frozenset()
    # Questions judged side by side; the judge has a bound of its own.
    concurrency: int = 8

    def wants(self, name: str) -> bool:
        """Whether a metric is to be measured."""
        return not self.names or name in self.names

    def can(self, metric: Metric) -> bool:
        """Whether a metric can be measured."""
        return not metric.needs_judge or (
            self.judge is not None and (metric.name != "answer_relevance" or self.embedder is not None)
        )


@dataclass(frozen=True)
class Scoring:
    """Scores, and metrics that were wanted and not measured, with the reason."""

    scored: Sequence[Scored]
    not_measured: Mapping[str, str] = field(default_factory=dict[str, str])
    # By variant, for figures of tool selection.
    judged: Mapping[str, Sequence[Judged]] = field(default_factory=dict[str, "Sequence[Judged]"])


async def score_run(
    items: Sequence[Item],
    variants: Sequence[Variant],
    records: Sequence[Record],
    judging: Judging,
    assigner: Assigner,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Scoring:
    """The scores of all records that have an answer, in the order of records and metrics."""
    by_id = {item.id: item for item in items}
    kinds = {variant.name: variant.kind for variant in variants}
    wanted = [one for one in catalogue.METRICS if judging.wants(one.name)]
    metrics = [one for one in wanted if judging.can(one)]
    gate = asyncio.Semaphore(judging.concurrency)
    done = 0

    async def score(record: Record) -> list[Scored]:
        nonlocal done
        async with gate:
            found = [
                one async for one in _scores(record, by_id[record.item_id], kinds[record.variant], metrics, judging)
            ]
        done += 1
        told(done, len(records))
        return [Scored(record.item_id, record.variant, one) for one in found]

    answered = [one for one in records if one.answered is not None]
    scored = [one for many in await asyncio.gather(*map(score, answered)) for one in many]
    judged = await _tools_judged(by_id, kinds, records, assigner)
    if judging.wants(NOISE) and judging.judge is not None:
        scored += await _noise(variants, records, judging.judge)
    scored += [
        Scored(one.item.id, variant, score)
        for variant, many in judged.items()
        for one in many
        if one.answered
        for score in deterministic.tool_scores(one)
        if judging.wants(score.metric)
    ]
    return Scoring(scored, _left_out(wanted, judging), judged)


async def _scores(
    record: Record, item: Item, kind: Kind, metrics: Sequence[Metric], judging: Judging
) -> AsyncIterator[Score]:
    answered = record.answered
    if answered is None:
        return
    for one in deterministic.METRICS:
        if judging.wants(one.name) and _fits(one.name, kind):
            yield one.measure(record, item)
    ranked = deterministic.by_source(answered)
    if kind in (Kind.SEARCH, Kind.GIVEN):
        item = replace(item, sources=deterministic.documents(item.sources))
    for metric in metrics:
        if _applies(metric, kind):
            read = answered if metric.needs_judge else ranked
            yield await metric.score(read, item, judging.judge, judging.embedder)


def _applies(metric: Metric, kind: Kind) -> bool:
    """Whether a way of answering has what a metric reads: an answer, or passages."""
    if kind is Kind.SEARCH:
        return metric.name not in _OF_ANSWERS
    if kind in (Kind.MODEL, Kind.CONSTANT):
        return metric.needs_judge and not metric.name.startswith(("faithfulness", "context"))
    return True


def _fits(name: str, kind: Kind) -> bool:
    """A search says nothing, and only the agent tells what it cites."""
    if name in (deterministic.CITED, deterministic.CITED_RIGHT):
        return kind is Kind.AGENT
    return kind is not Kind.SEARCH


async def _tools_judged(
    items: Mapping[str, Item], kinds: Mapping[str, Kind], records: Sequence[Record], assigner: Assigner
) -> dict[str, list[Judged]]:
    found: dict[str, list[Judged]] = {}
    for record in records:
        if kinds[record.variant] is Kind.AGENT:
            found.setdefault(record.variant, []).append(await judge(items[record.item_id], record.answered, assigner))
    return found


async def _noise(variants: Sequence[Variant], records: Sequence[Record], judge: Judge) -> list[Scored]:
    """Of each variant with noise, against the variant that is the same without."""
    answers = {record.key: record.answered for record in records if record.answered is not None}
    found: list[Scored] = []
    for noisy, clean in noise_pairs(variants):
        for item_id in dict.fromkeys(record.item_id for record in records):
            before, after = answers.get((item_id, clean.name)), answers.get((item_id, noisy.name))
            if before is not None and after is not None:
                found.append(Scored(item_id, noisy.name, await noise_sensitivity.score(before, after, judge)))
    return found


def noise_pairs(variants: Sequence[Variant]) -> list[tuple[Variant, Variant]]:
    """(with noise, without), of variants that differ in nothing else."""
    return [
        (noisy, clean)
        for noisy in variants
        for clean in variants
        if noisy.noise and not clean.noise and _but_noise(noisy) == _but_noise(clean)
    ]


def _but_noise(variant: Variant) -> object:
    return {name: value for name, value in variant.written().items() if name not in ("name", "noise")}


def _left_out(wanted: Sequence[Metric], judging: Judging) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for metric in wanted:
        if not judging.can(metric):
            no_judge = judging.judge is None
            reasons[metric.name] = "no judge is set" if no_judge else "nothing embeds questions"
    if judging.wants(NOISE) and judging.judge is None:
        reasons[NOISE] = "no judge is set"
    return reasons
