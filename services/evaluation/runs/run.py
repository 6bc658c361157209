"""A whole run: asked, scored, summed up. The command and the service do the very same."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from services.evaluation.answered import Json
from services.evaluation.golden.item import Item
from services.evaluation.golden.sets import GoldenSet
from services.evaluation.runs.asking import Asks, ask_all
from services.evaluation.runs.baseline import Origin
from services.evaluation.runs.facts import facts
from services.evaluation.runs.folder import BrokenRun, Manifest, RunFolder, ToolFigures
from services.evaluation.runs.gate import Current
from services.evaluation.runs.record import Record, Scored, by_variant
from services.evaluation.runs.scoring import Judging, Scoring, score_run
from services.evaluation.runs.summary import Summary, summary_of
from services.evaluation.runs.variant import Variant, check_names
from services.evaluation.tools import baselines as tool_baselines
from services.evaluation.tools.accuracy import summed
from services.evaluation.tools.assignment import NOT_JUDGED, Assigner

Told = Callable[[str, int, int], None]


def silent(_what: str, _done: int, _of: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Order:
    """What is to be run. `items` of `half` of the set; `limit`: only the first so many, 0 for all."""

    golden: GoldenSet
    half: str
    variants: Sequence[Variant]
    seed: int = 7
    limit: int = 0
    concurrency: int = 4
    command: str = ""
    # How the stack describes its tools, by name.
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def items(self) -> tuple[Item, ...]:
        """Those that are asked, in the order of the set."""
        return self.golden.items[: self.limit] if self.limit else self.golden.items

    def plan(self) -> dict[str, Json]:
        """What makes a run this run."""
        return {
            "golden_set": self.golden.about.name,
            "version": self.golden.about.version,
            "fingerprint": self.golden.fingerprint,
            "half": self.half,
            "limit": self.limit,
            "seed": self.seed,
            "variants": [dict(one.written()) for one in self.variants],
        }


@dataclass(frozen=True)
class Finished:
    """A run that was asked and scored."""

    folder: RunFolder
    items: Sequence[Item]
    variants: Sequence[Variant]
    records: Sequence[Record]
    scored: Sequence[Scored]
    summary: Summary
    tools: ToolFigures = field(default_factory=ToolFigures)

    @property
    def plan(self) -> dict[str, Json]:
        """As the manifest has it."""
        return dict(self.folder.manifest.plan)

    @property
    def half(self) -> str:
        """Of the set."""
        return str(self.plan["half"])

    @property
    def judge(self) -> str:
        """Who judged; empty: nobody."""
        return str(self.folder.manifest.scoring.get("judge", ""))

    @property
    def prompts(self) -> dict[str, str]:
        """Versions of the judge's prompts, by task and language."""
        return dict(cast(Mapping[str, str], self.folder.manifest.scoring.get("prompts", {})))

    @property
    def statements(self) -> str:
        """How SQL in calls was judged."""
        return str(self.folder.manifest.scoring.get("statements", NOT_JUDGED))

    @property
    def answered(self) -> dict[str, list[str]]:
        """Questions that have an answer, by variant."""
        found: dict[str, list[str]] = {one.name: [] for one in self.variants}
        for record in self.records:
            if record.answered is not None:
                found[record.variant].append(record.item_id)
        return found

    @property
    def origin(self) -> Origin:
        """What a baseline made of it is of."""
        plan = self.plan
        return Origin(
            str(plan["golden_set"]),
            cast(int, plan["version"]),
            str(plan["fingerprint"]),
            str(plan["half"]),
            self.judge,
            str(self.folder.manifest.facts.get("command", "")),
            self.statements,
            self.prompts,
        )

    @property
    def current(self) -> Current:
        """As the gate takes it."""
        plan = self.plan
        scores = by_variant(self.scored)
        golden_set, fingerprint = str(plan["golden_set"]), str(plan["fingerprint"])
        return Current(golden_set, fingerprint, self.judge, scores, self.answered, self.statements, self.prompts)


def start(path: Path, order: Order, run_id: str = "") -> RunFolder:
    """The run's folder, new or gone on with. `run_id`: of a new one; empty: made up. Raises WrongVariant, BrokenRun."""
    check_names(order.variants)
    now = datetime.now(UTC)
    run_id = run_id or f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    return RunFolder.start(path, Manifest(run_id, f"{now:%Y-%m-%dT%H:%M:%SZ}", order.plan(), facts(order.command)))


async def execute(
    order: Order,
    folder: RunFolder,
    asks: Asks,
    judging: Judging,
    assigner: Assigner,
    told: Told = silent,
) -> Finished:
    """Asks what is not asked yet, scores everything, writes both to the folder. Raises StatementFailed, OSError."""
    wanted = len(order.items) * len(order.variants)
    done = sum(one.answered is not None for one in folder.records())

    def one_more(record: Record) -> None:
        nonlocal done
        done += 1
        told("asked", done, wanted)

    records = await ask_all(order.items, order.variants, asks, folder, concurrency=order.concurrency, told=one_more)
    scoring = await score_run(
        order.items, order.variants, records, judging, assigner, lambda done, of: told("scored", done, of)
    )
    folder.write_scores(scoring.scored)
    folder.note_scoring({**_noted(judging, scoring, records), "statements": assigner.statements})
    summary = summary_of(order.items, [one.name for one in order.variants], records, scoring.scored)
    selections = {name: summed(judged) for name, judged in scoring.judged.items() if _has_tools(order.items)}
    tools = ToolFigures(
        selections, order.descriptions, await tool_baselines.selections(order.items, order.descriptions)
    )
    folder.write_tools(tools)
    return Finished(folder, order.items, order.variants, records, scoring.scored, summary, tools)


def _has_tools(items: Sequence[Item]) -> bool:
    return any(item.calls for item in items)


def _noted(judging: Judging, scoring: Scoring, records: Sequence[Record]) -> dict[str, Json]:
    judge = judging.judge
    noted: dict[str, Json] = {"not_measured": dict(scoring.not_measured), "judge": ""}
    if judge is not None:
        tasks = ("claims", "support", "relevance", "questions", "aspects", "coverage")
        languages = sorted({one.answered.language for one in records if one.answered is not None})
        versions = {
            f"{task}.{language}": judge.prompt_version(task, language) for task in tasks for language in languages
        }
        usage: dict[str, Json] = dict(vars(judge.usage))
        noted |= {"judge": judge.name, "prompts": dict(versions), "usage": usage}
    return noted


def read_finished(path: Path, items: Sequence[Item]) -> Finished:
    """A run from its folder, with the items of its set. Raises BrokenRun."""
    folder = RunFolder.open(path)
    plan = folder.manifest.plan
    variants = [Variant.read(cast(dict[str, Json], one)) for one in cast(list[Json], plan["variants"])]
    limit = cast(int, plan["limit"])
    asked = items[:limit] if limit else items
    records = {one.key: one for one in folder.records()}
    wanted = [(item.id, variant.name) for item in asked for variant in variants]
    if missing := [key for key in wanted if key not in records]:
        raise BrokenRun(f"{path}: {len(missing)} questions were not asked; run the same command again to go on")
    kept = [records[key] for key in wanted]
    scored = folder.scores()
    summary = summary_of(asked, [one.name for one in variants], kept, scored)
    return Finished(folder, asked, variants, kept, scored, summary, folder.tools())
