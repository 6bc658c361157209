"""Builds a golden set: draws chunks, has questions written and checked, parts them, draws some for review."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from services.evaluation.golden.building.author import Author
from services.evaluation.golden.building.candidate import Candidate, Rejection
from services.evaluation.golden.building.chunk import Chunk
from services.evaluation.golden.building.corpus import Corpus
from services.evaluation.golden.building.duplicates import Duplicates
from services.evaluation.golden.building.journal import Journal
from services.evaluation.golden.building.sampling import seed_chunks
from services.evaluation.golden.item import Item, Stratum
from services.evaluation.golden.split import check_apart, sides
from services.evaluation.judge.judge import JudgeFailed, OverBudget


@dataclass(frozen=True)
class Plan:
    """How much to write. The shares of the harder strata are of the seed chunks."""

    chunk_count: int = 60
    questions_per_chunk: int = 2
    multi_hop_share: float = 0.25
    false_premise_share: float = 0.15
    unanswerable_share: float = 0.15
    dev_share: float = 0.5
    least_characters: int = 200
    seed: int = 1
    concurrency: int = 4


@dataclass
class Report:
    """What came of a build."""

    chunk_count: int = 0
    steps: int = 0
    # Of these, done by an earlier run.
    resumed: int = 0
    # The model failed; the next run tries again.
    failed: int = 0
    over_budget: bool = False
    # Why questions were compared by their words alone; empty: by their meaning too.
    by_words_alone: str = ""
    taken: Counter[Stratum] = field(default_factory=Counter[Stratum])
    rejected: Counter[Rejection] = field(default_factory=Counter[Rejection])
    # Some of each, to look at.
    examples: dict[Rejection, list[Candidate]] = field(default_factory=dict[Rejection, list[Candidate]])

    @property
    def is_whole(self) -> bool:
        """Whether every step is done."""
        return not self.failed and not self.over_budget


@dataclass(frozen=True)
class Built:
    """Items with their halves, what each was written from (texts by the item's id), and how it went."""

    items: Sequence[Item]
    passages: Mapping[str, list[str]]
    report: Report


@dataclass(frozen=True)
class Step:
    """Something to ask for. `key` changes with whatever may change what comes of it."""

    key: str
    ask: Callable[[], Awaitable[list[Candidate]]]


Progress = Callable[[int, int], None]


async def build(
    chunks: Sequence[Chunk],
    author: Callable[[Corpus], Author],
    plan: Plan,
    journal: Journal,
    version: str,
    say: Progress,
    duplicates: Duplicates | None = None,
) -> Built:
    """Writes, checks and parts. `version` stands for models and prompts; `say` is told how many steps are done.

    What is in the journal is not asked for again; cancelling loses the steps under way only.
    """
    corpus = Corpus(chunks)
    seeds = seed_chunks(chunks, plan.chunk_count, plan.seed, plan.least_characters)
    halves = sides(Counter(one.document for one in chunks), f"golden {plan.seed}", plan.dev_share)
    report = Report(chunk_count=len(seeds))
    pairs = corpus.linked(seeds, round(plan.multi_hop_share * len(seeds)), halves)
    steps = list(_steps(seeds, pairs, author(corpus), plan, version))
    report.steps = len(steps)
    report.resumed = sum(step.key in journal for step in steps)
    await _run(steps, journal, report, plan.concurrency, say)
    candidates = [one for step in steps for one in journal.get(step.key) or ()]
    same = duplicates or Duplicates()
    report.by_words_alone = await same.learn(candidates)
    kept = _taken(same.marked(candidates), report)
    items = [_item(one, version, halves[one.documents[0]]) for one in kept]
    check_apart(items)
    texts = {chunk.id: chunk.text for chunk in chunks}
    passages = {
        item.id: [texts[name] for name in one.chunks if name in texts] for item, one in zip(items, kept, strict=True)
    }
    return Built(items, passages, report)


def _steps(
    seeds: Sequence[Chunk], pairs: Sequence[tuple[Chunk, Chunk]], author: Author, plan: Plan, version: str
) -> Iterator[Step]:
    def step(kind: str, ask: Callable[[], Awaitable[list[Candidate]]], *chunks: Chunk) -> Step:
        told = "\n".join([version, kind, *(one.id for one in chunks)])
        return Step(hashlib.sha256(told.encode()).hexdigest()[:24], ask)

    count = plan.questions_per_chunk
    for chunk in seeds:
        yield step(f"single {count}", partial(author.single_hop, chunk, count), chunk)
    for first, second in pairs:
        yield step("multi", partial(author.multi_hop, first, second), first, second)
    # From both ends, so that the two do not share their chunks.
    for chunk in islice(seeds, round(plan.false_premise_share * len(seeds))):
        yield step("false", partial(author.false_premise, chunk), chunk)
    for chunk in islice(reversed(seeds), round(plan.unanswerable_share * len(seeds))):
        yield step("unanswerable", partial(author.unanswerable, chunk), chunk)


async def _run(steps: Sequence[Step], journal: Journal, report: Report, concurrency: int, say: Progress) -> None:
    """Does what is not done. Over budget, no step is begun any more."""
    left = iter([step for step in steps if step.key not in journal])
    done = report.resumed

    async def work() -> None:
        nonlocal done
        for step in left:
            if report.over_budget:
                return
            try:
                journal.put(step.key, await step.ask())
            except JudgeFailed:
                report.failed += 1
            except OverBudget:
                report.over_budget = True
            done += 1
            say(done, len(steps))

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())


def _taken(candidates: Sequence[Candidate], report: Report) -> list[Candidate]:
    """Those that are taken; all others are counted."""
    kept: list[Candidate] = []
    for one in candidates:
        if one.rejected is None:
            kept.append(one)
            report.taken[one.stratum] += 1
        else:
            report.rejected[one.rejected] += 1
            report.examples.setdefault(one.rejected, []).append(one)
    return kept


def _item(one: Candidate, version: str, half: str) -> Item:
    name = hashlib.sha256(f"{one.stratum}\n{one.question}".encode()).hexdigest()[:12]
    answered = one.stratum is not Stratum.UNANSWERABLE
    return Item(
        f"{one.stratum.value}-{name}",
        one.question,
        one.language,
        one.stratum,
        sources=tuple(one.documents) if answered else (),
        reference=one.reference,
        split=half,
        provenance=version,
        made_from=() if answered else tuple(one.documents),
    )


def markdown(report: Report, review_count: int) -> str:
    """For people: what was taken, and what was rejected and why, with examples."""
    total = sum(report.taken.values()) + sum(report.rejected.values())
    lines = [
        f"{report.chunk_count} chunks, {report.steps} steps ({report.resumed} of an earlier run), {total} questions.",
        f"{sum(report.taken.values())} taken, {review_count} of them drawn for review.",
    ]
    if report.failed:
        lines.append(f"**{report.failed} steps failed**; the same command tries them again.")
    if report.over_budget:
        lines.append("**The budget was used up**; the same command with a larger one goes on.")
    if report.by_words_alone:
        why = report.by_words_alone
        lines.append(f"Questions were compared by their words alone ({why}): some may ask the same in other words.")
    lines += ["", "| taken | |", "| --- | --- |"]
    lines += [f"| {stratum.value} | {count} |" for stratum, count in sorted(report.taken.items())]
    lines += ["", "| rejected | | such as |", "| --- | --- | --- |"]
    for why, count in report.rejected.most_common():
        example = " ".join(report.examples[why][0].question.split()).replace("|", "\\|")[:120] or "–"
        lines.append(f"| {why.value} | {count} | {example} |")
    return "\n".join(lines) + "\n"
