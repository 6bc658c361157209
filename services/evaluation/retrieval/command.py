"""`python -m services.evaluation.retrieval`: how good is what the product finds?

Ends with status 1 when figures cannot be believed, and with `--check` when a target is missed.
"""

import argparse
import asyncio
import os
import platform
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from services.evaluation.retrieval import catalogue, report, server, split, targets, trial
from services.evaluation.retrieval.collection import BrokenCollection, Collection
from services.evaluation.retrieval.processes import NotStarted
from services.evaluation.runs.facts import commit

SHIPPED = Path("tests/data/evaluation/collections")
_CACHE = Path(".sabueso/eval-cache")
READINGS = Path("docs/test-readings.log")


def main(words: Sequence[str] | None = None) -> int:
    """The command; its status."""
    asked = read(words)
    if asked.split != split.DEV and not asked.reason:
        print("The test questions are read for a release: say --reason, it is noted.", file=sys.stderr)
        return 2
    try:
        loaders = catalogue.chosen(catalogue.found(asked.data), asked.collections)
        whole = [load() for load in loaders]
        if asked.freeze:
            return _freeze(whole)
        frozen = split.read_frozen()
        parts = [limited(split.part(one, asked.split, frozen), asked.max_questions) for one in whole]
    except (BrokenCollection, split.SplitChanged, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    parts = [one for one in parts if one.questions]
    if asked.split != split.DEV:
        note_reading(READINGS, asked.split, asked.reason, [one.name for one in parts])
    # A killed run stops its services too, as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        trials, model = asyncio.run(_measured(asked, parts))
    except KeyboardInterrupt:
        return 130
    except (NotStarted, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    return _told(asked, trials, model)


def read(words: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    reader = argparse.ArgumentParser(prog="make eval-retrieval", description="Measures retrieval on test collections.")
    reader.add_argument("--data", type=Path, default=SHIPPED, help="folder of collections; default: the shipped sample")
    reader.add_argument("--collections", nargs="*", default=[], help="only these")
    reader.add_argument("--split", choices=[split.DEV, split.TEST, split.ALL], default=split.DEV)
    reader.add_argument("--reason", default="", help="why the test questions are read")
    reader.add_argument("--out", type=Path, help="Markdown file that gets the table")
    reader.add_argument("--json", action="store_true", help="print JSON lines instead of the table")
    reader.add_argument("--check", action="store_true", help="status 1 when a target is missed")
    reader.add_argument("--model", default="", help="embedding model, as in SABUESO_EMBEDDING_MODEL")
    reader.add_argument("--max-questions", type=int, default=0, help="of each collection; 0 means all")
    reader.add_argument("--freeze", action="store_true", help="write splits.json anew instead; for new collections")
    return reader.parse_args(words)


def limited(collection: Collection, most: int) -> Collection:
    """The collection with its first questions only; 0 means all."""
    return replace(collection, questions=collection.questions[:most]) if most else collection


def _freeze(collections: Sequence[Collection]) -> int:
    """Keeps what is frozen already."""
    kept = split.read_frozen()
    new = split.frozen_form(one for one in collections if one.name not in kept)
    split.write_frozen(kept | new)
    print(f"frozen: {', '.join(new) or 'nothing new'}")
    return 0


async def _measured(asked: argparse.Namespace, collections: Sequence[Collection]) -> tuple[list[trial.Trial], str]:
    trials: list[trial.Trial] = []
    async with server.running(asked.model, _CACHE) as product:
        for one in collections:
            trials.append(await trial.run(one, product, _say))
            _say(f"• {one.name}: {len(one.questions)} questions in {trials[-1].seconds:.0f} s")
            if asked.json:
                print("\n".join(report.trial_lines(asked.split, trials[-1])), flush=True)
        return trials, product.model


def _told(asked: argparse.Namespace, trials: Sequence[trial.Trial], model: str) -> int:
    origin = report.Origin(
        asked.split,
        command(asked),
        commit(),
        model,
        f"{os.cpu_count()} × {platform.machine()}",
        f"{datetime.now(UTC):%Y-%m-%d}",
        asked.data == SHIPPED,
    )
    faults = targets.faults(trials)
    verdicts = targets.verdicts(trials)
    if asked.json:
        print("\n".join(report.target_lines(origin, verdicts)))
    else:
        print(report.section(origin, trials, verdicts, faults))
    if asked.out:
        report.written(asked.out, origin.heading, report.section(origin, trials, verdicts, faults))
    for fault in faults:
        print(fault, file=sys.stderr)
    missed = asked.check and any(one.passed is False for one in verdicts)
    return 1 if faults or missed else 0


def command(asked: argparse.Namespace) -> str:
    """What to call to get the same; where the data are is everybody's own affair."""
    command = "make eval-retrieval" if asked.data == SHIPPED else "make eval-retrieval DATA=<folder>"
    said = [("ONLY", " ".join(asked.collections)), ("MODEL", asked.model)]
    said += [("MAX_QUESTIONS", str(asked.max_questions or ""))]
    said += [("SPLIT", asked.split if asked.split != split.DEV else ""), ("REASON", asked.reason)]
    return " ".join([command, *(f"{name}={shlex.quote(value)}" for name, value in said if value)])


def note_reading(path: Path, part: str, reason: str, names: Sequence[str]) -> None:
    """Adds a line: when, at which commit, which split of which collections, and why."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = (f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", commit(), part, ",".join(names), " ".join(reason.split()))
    with path.open("a", encoding="utf-8") as log:
        log.write("\t".join(cells) + "\n")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
