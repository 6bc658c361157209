"""Reads whole answers, right and wrong, that were written by hand instead of made by rules."""

import json
from pathlib import Path

from services.orchestrator.trials.citation_cases import Case
from services.orchestrator.trials.citation_claims import read_sources


def written_cases(folder: Path) -> list[Case]:
    """The answers of `folder`/answers.jsonl, each with its sources by mark."""
    sources = read_sources(folder)
    lines = (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Case(
            one["right"],
            one["kind"],
            one["language"],
            True,
            one["answer"],
            tuple(sources[name] for name in one["sources"]),
        )
        for one in map(json.loads, lines)
    ]
