"""The folder of a run: a manifest, a line of JSON an answer and a score. Whatever ends a run, what is written stays."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from services.evaluation.answered import Json
from services.evaluation.golden.sets import write_text
from services.evaluation.runs.record import (
    Record,
    Scored,
    read_record,
    read_scored,
    read_selection,
    record_line,
    scored_line,
    selection_line,
)
from services.evaluation.tools.accuracy import Selection

MANIFEST, ANSWERS, SCORES, TOOLS = "run.json", "answers.jsonl", "scores.jsonl", "tools.json"


class BrokenRun(ValueError):
    """A folder that holds no run, or another one. The message names the file and what is wrong."""


@dataclass(frozen=True)
class Manifest:
    """What a run is. `plan` decides whether an interrupted run may go on: set, half, items, variants, seed.

    `facts`: machine, versions, command; may differ between the parts of an interrupted run and are those of its start.
    """

    run_id: str
    created_at: str
    plan: Mapping[str, Json]
    facts: Mapping[str, Json] = field(default_factory=dict[str, Json])
    # How it was scored: judge, prompts, metrics that were not measured and why.
    scoring: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True)
class ToolFigures:
    """Tool selection by variant, how the stack describes its tools, and what choosing without looking would score."""

    selections: Mapping[str, Selection] = field(default_factory=dict[str, Selection])
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    trivial: Mapping[str, Selection] = field(default_factory=dict[str, Selection])


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def start(cls, path: Path, manifest: Manifest) -> Self:
        """A new run, or the one that is there, to go on with it. Raises BrokenRun when that is another run."""
        if (path / MANIFEST).exists():
            found = cls.open(path)
            if different := sorted(_different(found.manifest.plan, manifest.plan)):
                raise BrokenRun(f"{path} holds a run with another {', '.join(different)}; choose another folder")
            return found
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, manifest)
        folder._write_manifest()
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """The run that is there. Raises BrokenRun."""
        try:
            written: Any = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
            return cls(path, Manifest(**written))
        except FileNotFoundError:
            raise BrokenRun(f"{path} holds no run: there is no {MANIFEST}") from None
        except (OSError, ValueError, TypeError) as error:
            raise BrokenRun(f"{path / MANIFEST}: {error}") from None

    def note_scoring(self, scoring: Mapping[str, Json]) -> None:
        """Keeps how the run was scored."""
        one = self.manifest
        self.manifest = Manifest(one.run_id, one.created_at, one.plan, one.facts, scoring)
        self._write_manifest()

    def append(self, record: Record) -> None:
        """Writes an answer; it is on disk when this returns."""
        path = self.path / ANSWERS
        # A line that a killed run left half written would swallow this one.
        torn = path.exists() and not _ends_whole(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(("\n" if torn else "") + _line(record_line(record)))
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> list[Record]:
        """The last record of each question and variant, in the order first asked. Raises BrokenRun."""
        found: dict[tuple[str, str], Record] = {}
        for line in _lines(self.path / ANSWERS):
            try:
                record = read_record(line)
            except (KeyError, TypeError, ValueError) as error:
                raise BrokenRun(f"{self.path / ANSWERS}: a line is no record: {error}") from None
            found[record.key] = record
        return list(found.values())

    def write_scores(self, scored: Iterable[Scored]) -> None:
        """Replaces the scores in one step."""
        write_text(self.path / SCORES, "".join(_line(scored_line(one)) for one in scored))

    def scores(self) -> list[Scored]:
        """All scores. Raises BrokenRun, also where the run was never scored."""
        path = self.path / SCORES
        if not path.exists():
            raise BrokenRun(f"{self.path}: the run is not scored yet; the same `sabueso evals run` goes on with it")
        try:
            return [read_scored(line) for line in _lines(path)]
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenRun(f"{path}: a line is no score: {error}") from None

    def write_tools(self, figures: ToolFigures) -> None:
        """Keeps the figures of tool selection."""
        kept = {
            "selections": {name: selection_line(one) for name, one in figures.selections.items()},
            "descriptions": dict(figures.descriptions),
            "trivial": {name: selection_line(one) for name, one in figures.trivial.items()},
        }
        write_text(self.path / TOOLS, json.dumps(kept, ensure_ascii=False, indent=1) + "\n")

    def tools(self) -> ToolFigures:
        """What `write_tools` kept; nothing where it kept nothing. Raises BrokenRun."""
        path = self.path / TOOLS
        if not path.exists():
            return ToolFigures()
        try:
            kept: Any = json.loads(path.read_text(encoding="utf-8"))
            selections, trivial = (
                {name: read_selection(one) for name, one in kept.get(of, {}).items()}
                for of in ("selections", "trivial")
            )
            return ToolFigures(selections, kept["descriptions"], trivial)
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BrokenRun(f"{path}: {error}") from None

    def _write_manifest(self) -> None:
        text = json.dumps(self.manifest.__dict__, ensure_ascii=False, indent=2)
        write_text(self.path / MANIFEST, text + "\n")


def _different(one: Mapping[str, Json], other: Mapping[str, Json]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _lines(path: Path) -> list[Any]:
    """The values of a file's lines; what a killed run left half written is left out."""
    found: list[Any] = []
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        if not line:
            continue
        try:
            found.append(json.loads(line))
        except ValueError:
            # Only a torn line is no JSON: each is written whole, and the next begins on a line of its own.
            continue
    return found
