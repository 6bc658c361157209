"""Reads whole answers, right and wrong, that were written by hand instead of made by rules."""

import json
from pathlib import Path
from typing import Any

from services.orchestrator.results import Passage
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


def natural_cases(folder: Path, *, held: bool = False) -> list[Case]:
    """The answers of every `folder`/*.jsonl, each with its sources by mark in the same line.

    `held`: those that were set apart for one reading (`"half": "held"`) instead of the rest.
    """
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text(encoding="utf-8").splitlines()]
    return [_natural(one) for one in map(json.loads, lines) if (one.get("half") == "held") is held]


def _natural(one: dict[str, Any]) -> Case:
    texts = [source["text"] for source in sorted(one["sources"], key=lambda source: source["n"])]
    wrong = one["wrong"][0] if one["wrong"] else None
    return Case(
        wrong is None,
        wrong["kind"] if wrong else one["kind"],
        one["language"],
        one.get("half") == "held",
        one["answer"],
        tuple(Passage(f"d{n}", f"d{n}#0", "", "", 0, "", "", text) for n, text in enumerate(texts, start=1)),
        planted=wrong["sentence"] if wrong else "",
    )
