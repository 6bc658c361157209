"""Reads collections in the layout of BEIR (Thakur et al. 2021): corpus.jsonl, queries.jsonl, qrels/<split>.tsv."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.evaluation.retrieval.collection import BrokenCollection, Collection, Passage, joined

_LANGUAGE = re.compile(r"-([a-z]{2})$")
# Lower than the most difficult collections of BEIR, higher than chance.
_FLOOR = 0.05
_SPLITS = ("test", "dev", "train")


def is_beir(folder: Path) -> bool:
    """Whether a folder has this layout."""
    return (folder / "corpus.jsonl").is_file() and (folder / "queries.jsonl").is_file()


def load(folder: Path) -> Collection:
    """Reads the first of qrels/test.tsv, dev.tsv and train.tsv that is there; relevant is a score above 0.

    The layout knows no language: `-es` at the end of the folder's name says Spanish, and so on; without, it is English.
    Raises BrokenCollection.
    """
    name = folder.name.lower()
    language = found[1] if (found := _LANGUAGE.search(name)) else "en"
    passages = [
        Passage(str(row["_id"]), str(row.get("text") or ""), str(row.get("title") or ""), language, str(row["_id"]))
        for row in _rows(folder / "corpus.jsonl")
    ]
    questions = [(str(row["_id"]), str(row["text"])) for row in _rows(folder / "queries.jsonl")]
    return joined(name, passages, questions, list(_judged(folder)), floor=_FLOOR)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                row["_id"]
            except (ValueError, KeyError, TypeError) as error:
                raise BrokenCollection(f"{path.parent.name}: {path.name}, line {number}: {error!r}") from None
            yield row


def _judged(folder: Path) -> Iterator[tuple[str, str]]:
    paths = [folder / "qrels" / f"{split}.tsv" for split in _SPLITS]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise BrokenCollection(f"{folder.name}: no qrels/{{{','.join(_SPLITS)}}}.tsv")
    with path.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.reader(lines, delimiter="\t"), 1):
            if number == 1 and row and not _is_number(row[-1]):
                continue  # the header; some files have none
            if len(row) < 3 or not _is_number(row[2]):
                raise BrokenCollection(f"{folder.name}: {path.name}, line {number}: {row!r}")
            if float(row[2]) > 0:
                yield row[0], row[1]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
