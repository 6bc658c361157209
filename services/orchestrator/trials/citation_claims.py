"""Reads the sentences that citation checking is tried on, and the sources that support them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.orchestrator.results import Page, Passage, Rows, Source

FOLDERS = ("demo", "xquad", "bank")
# Nothing was tuned on every second document of these, and on their rows.
_TESTS = ("bank",)


@dataclass(frozen=True)
class Claim:
    """A true sentence and the source that says it. `kind`: paraphrased, exact, rounded, computed, or absence."""

    source_id: str
    language: str
    kind: str
    text: str


@dataclass(frozen=True)
class Material:
    """All sources by id, the document and language of each (empty for rows), and the claims.

    `tests` are the documents whose claims are kept for the reported figures; the others are for tuning.
    """

    sources: Mapping[str, Source]
    documents: Mapping[str, str]
    languages: Mapping[str, str]
    claims: tuple[Claim, ...]
    tests: frozenset[str]


def read_material(folder: Path) -> Material:
    """Everything in `folder`."""
    sources: dict[str, Source] = {}
    documents: dict[str, str] = {}
    languages: dict[str, str] = {}
    claims: list[Claim] = []
    held: list[str] = []
    rows: list[str] = []
    for name in FOLDERS:
        for line in (folder / name / "sources.jsonl").read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            sources[one["id"]] = _source(one)
            documents[one["id"]], languages[one["id"]] = one["document"], one.get("language", "")
            if name in _TESTS:
                (rows if one["kind"] == "rows" else held).append(one["document"])
        for line in (folder / name / "claims.jsonl").read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            claims.append(Claim(one["source"], one["language"], one["kind"], one["text"]))
    return Material(sources, documents, languages, tuple(claims), frozenset([*list(dict.fromkeys(held))[1::2], *rows]))


def read_sources(folder: Path) -> Mapping[str, Source]:
    """The sources of one set, by id."""
    lines = (folder / "sources.jsonl").read_text(encoding="utf-8").splitlines()
    return {one["id"]: _source(one) for one in map(json.loads, lines)}


def _source(one: Mapping[str, Any]) -> Source:
    match one["kind"]:
        case "rows":
            return Rows(
                one["statement"], one["params"], tuple(one["columns"]), tuple(tuple(row) for row in one["rows"])
            )
        case "page":
            return Page(f"https://example.com/{one['document']}", one["title"], one["text"], "")
        case _:
            return Passage(
                one["document"], one["id"], one["title"], "", 0, one["section"], one["language"], one["text"]
            )
