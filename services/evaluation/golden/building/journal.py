"""What has been done, a line a step, so that a build goes on where it was stopped and asks for nothing twice."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from services.evaluation.golden.building.candidate import Candidate


class Done(BaseModel):
    """A step that is finished: its key, and the questions that came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    candidates: list[Candidate]


class BrokenJournal(ValueError):
    """The journal cannot be read. The message names file and line."""


class Journal:
    """Appends to a file and knows what is in it; a context manager."""

    def __init__(self, path: Path) -> None:
        """Raises BrokenJournal and OSError. A last line without its end, which was being written at a crash, is cut."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.read_bytes() if path.exists() else b""
        kept = whole[: whole.rfind(b"\n") + 1]
        self._done = _read(path, kept.decode(errors="replace"))
        self._file = path.open("r+b" if whole else "wb")
        self._file.truncate(len(kept))
        self._file.seek(len(kept))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._done

    def get(self, key: str) -> Sequence[Candidate] | None:
        """What came of a step; None where it is not done."""
        return self._done.get(key)

    def put(self, key: str, candidates: Sequence[Candidate]) -> None:
        """Notes a step as done; it is on disk when this returns."""
        self._file.write(Done(key=key, candidates=list(candidates)).model_dump_json().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._done[key] = list(candidates)


def _read(path: Path, text: str) -> dict[str, list[Candidate]]:
    done: dict[str, list[Candidate]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                step = Done.model_validate_json(line)
            except ValidationError as error:
                raise BrokenJournal(f"{path}: line {number}: {error.errors()[0]['msg']}") from None
            done[step.key] = step.candidates
    return done
