"""Runs a model over the leaderboard's questions: asked, judged, written down; an interrupted run goes on."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from services.evaluation.golden.sets import write_text
from services.evaluation.runs.asking import ask_all
from services.evaluation.runs.facts import facts
from services.evaluation.runs.folder import Manifest, RunFolder
from services.evaluation.runs.record import Record
from services.evaluation.tools import leaderboard, leaderboard_report
from services.evaluation.tools.function_calls import RETRIES, UNREACHABLE, FunctionAsker
from services.evaluation.tools.leaderboard import Figures, Questions

REPORT = "report.md"
# So many questions tell whether anybody is there.
_FIRST = 8


class NobodyThere(Exception):
    """The model's server is not reached at all. The message says where, and how it failed."""


@dataclass(frozen=True)
class Wanted:
    """`url` ends in `/v1`; `folder` gets the run; `concurrency`: questions at the same time."""

    questions: Questions
    folder: Path
    url: str
    api_key: str
    model: str
    concurrency: int = 4
    max_tokens: int = 1024
    command: str = ""
    # Of a question that failed on the way.
    retries: int = RETRIES


@dataclass(frozen=True)
class Ran:
    """What came of it. `failed`: (question, reason) of those that were not answered."""

    folder: RunFolder
    figures: Sequence[Figures]
    failed: Sequence[tuple[str, str]]
    report: Path

    @property
    def facts(self) -> dict[str, Any]:
        """For scripts."""
        plan = dict(self.folder.manifest.plan)
        return {
            "run_id": self.folder.manifest.run_id,
            "folder": str(self.folder.path),
            "model": plan["model"],
            "url": plan["url"],
            "failed": [{"question": one, "reason": why} for one, why in self.failed],
            **leaderboard_report.facts(self.figures),
        }


async def run(wanted: Wanted, told: Callable[[int, int], None] = lambda _done, _of: None) -> Ran:
    """Asks what is not asked yet. Raises BrokenRun (another run is in the folder), NobodyThere, OSError."""
    folder = _folder(wanted)
    cases = wanted.questions.all
    done = sum(one.answered is not None for one in folder.records())
    first: list[str] = []
    enough = min(_FIRST, len(cases) - done)

    def one_more(record: Record) -> None:
        nonlocal done
        done += 1
        told(done, len(cases))
        if len(first) < enough:
            first.append(record.failure)
            if len(first) == enough and all(one.startswith(UNREACHABLE) for one in first):
                raise NobodyThere(f"{wanted.url}: the first {enough} questions failed, {first[-1]}")

    asker = FunctionAsker(wanted.url, wanted.api_key, cases, max_tokens=wanted.max_tokens, retries=wanted.retries)
    try:
        records = await ask_all(
            [case.item for case in cases],
            [leaderboard.asked_variant(wanted.model)],
            asker,
            folder,
            concurrency=wanted.concurrency,
            told=one_more,
        )
    finally:
        await asker.close()
    found = await leaderboard.figures(wanted.questions, records)
    report = folder.path / REPORT
    write_text(report, leaderboard_report.markdown(found, folder.manifest))
    return Ran(folder, found, [(one.item_id, one.failure) for one in records if one.answered is None], report)


def _folder(wanted: Wanted) -> RunFolder:
    now = datetime.now(UTC)
    made = Manifest(
        f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
        f"{now:%Y-%m-%dT%H:%M:%SZ}",
        leaderboard.plan(wanted.questions, wanted.url, wanted.model, wanted.max_tokens),
        facts(wanted.command),
    )
    return RunFolder.start(wanted.folder, made)
