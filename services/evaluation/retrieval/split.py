"""Parts questions into a half to tune on and a half to report on, once and for all.

Questions that one source document answers stay together. Groups are ordered by a hash and cut in the middle; what came
out is frozen in splits.json with hashes of the questions, so that neither a change of this code nor of the files moves
a question across unnoticed.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.evaluation.retrieval.collection import Collection, Question

FROZEN = Path(__file__).with_name("splits.json")
DEV, TEST, ALL = "dev", "test", "all"


class SplitChanged(ValueError):
    """Questions differ from those that were frozen. The message names the collection and the group."""


@dataclass(frozen=True)
class Halves:
    """Groups of questions by key."""

    dev: Mapping[str, Sequence[Question]]
    test: Mapping[str, Sequence[Question]]


def halves(collection: Collection, frozen: Mapping[str, Any]) -> Halves:
    """As frozen, where the collection is; otherwise as the hash has it. Raises SplitChanged."""
    groups = grouped(collection)
    kept = frozen.get(collection.name)
    if kept is None:
        order = sorted(groups, key=lambda key: hashlib.sha256(f"{collection.family}\n{key}".encode()).digest())
        dev = set(order[: (len(order) + 1) // 2])
        return Halves({key: groups[key] for key in order if key in dev}, {k: groups[k] for k in order if k not in dev})
    for key, questions in groups.items():
        expected = kept[DEV]["groups"].get(key) or kept[TEST]["groups"].get(key)
        if expected != mark(questions):
            raise SplitChanged(f"{collection.name}: the questions of group {key} are not those that were frozen")
    is_whole = len(groups) == len(kept[DEV]["groups"]) + len(kept[TEST]["groups"])
    if is_whole and collection.sha256() != kept["corpus_sha256"]:
        raise SplitChanged(f"{collection.name}: the passages are not those that were frozen")
    dev, test = ({key: groups[key] for key in kept[half]["groups"] if key in groups} for half in (DEV, TEST))
    return Halves(dev, test)


def grouped(collection: Collection) -> dict[str, list[Question]]:
    """Questions by group: alone, or with all that share a source document with them, directly or through others."""
    if not collection.by_document:
        return {one.question_id: [one] for one in collection.questions}
    sources = {one.passage_id: one.source for one in collection.passages}
    root: dict[str, str] = {}

    def top(source: str) -> str:
        while (above := root.setdefault(source, source)) != source:
            source = above
        return source

    for one in collection.questions:
        first, *others = sorted({top(sources[each]) for each in one.relevant})
        for other in others:
            root[other] = first
    groups: dict[str, list[Question]] = {}
    for one in collection.questions:
        groups.setdefault(top(sources[min(one.relevant)]), []).append(one)
    return groups


def part(collection: Collection, wanted: str, frozen: Mapping[str, Any]) -> Collection:
    """The collection with the questions of `wanted` (DEV, TEST or ALL). All its passages stay: they are searched.

    Raises SplitChanged, also when a document answers questions of both halves.
    """
    both = halves(collection, frozen)
    check_apart(collection, both)
    chosen = {DEV: [both.dev], TEST: [both.test], ALL: [both.dev, both.test]}[wanted]
    keep = {one.question_id for half in chosen for questions in half.values() for one in questions}
    return replace(collection, questions=[one for one in collection.questions if one.question_id in keep])


def check_apart(collection: Collection, both: Halves) -> None:
    """Raises SplitChanged when a source document answers questions of both halves of a collection split by document."""
    if not collection.by_document:
        return
    sources = {one.passage_id: one.source for one in collection.passages}
    answering = [
        {sources[each] for questions in half.values() for one in questions for each in one.relevant}
        for half in (both.dev, both.test)
    ]
    if shared := answering[0] & answering[1]:
        raise SplitChanged(f"{collection.name}: {min(shared)} answers questions of both halves")


def mark(questions: Iterable[Question]) -> str:
    """SHA-256 of ids, texts and relevant ids, the first 16 hex digits."""
    return _digest(questions)[:16]


def frozen_form(collections: Iterable[Collection]) -> dict[str, Any]:
    """What splits.json holds of these collections."""
    form: dict[str, Any] = {}
    for one in collections:
        both = halves(one, {})
        check_apart(one, both)
        form[one.name] = {"corpus_sha256": one.sha256()} | {
            name: {
                "question_count": sum(map(len, half.values())),
                "sha256": _digest(each for questions in half.values() for each in questions),
                "groups": {key: mark(half[key]) for key in sorted(half)},
            }
            for name, half in ((DEV, both.dev), (TEST, both.test))
        }
    return form


def read_frozen(path: Path = FROZEN) -> dict[str, Any]:
    """The frozen splits by collection; empty when there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_frozen(form: Mapping[str, Any], path: Path = FROZEN) -> None:
    """One line a half, so that changes show."""
    lines = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"    {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in kept.items())
        + "\n  }"
        for name, kept in sorted(form.items())
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _digest(questions: Iterable[Question]) -> str:
    rows = [[one.question_id, one.text, sorted(one.relevant)] for one in questions]
    return hashlib.sha256(json.dumps(sorted(rows), ensure_ascii=False).encode()).hexdigest()
