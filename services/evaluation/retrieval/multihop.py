"""Reads samples of HotpotQA (Yang et al. 2018) and MuSiQue (Trivedi et al. 2022): a question needs several passages."""

import hashlib
import json
from pathlib import Path
from typing import Any

from services.evaluation.retrieval.collection import Collection, Passage, joined

NAMES = ("hotpotqa", "musique")


def is_multihop(folder: Path, name: str) -> bool:
    """Whether a folder holds questions and passages of one of `NAMES`."""
    return all((folder / f"{name}_train{part}.json").is_file() for part in ("", "_corpus"))


def load(folder: Path, name: str) -> Collection:
    """One of `NAMES`, relevant being the supporting passages. Raises BrokenCollection."""
    rows = _read(folder / f"{name}_train.json")
    corpus = _read(folder / f"{name}_train_corpus.json")
    if name == "hotpotqa":
        passages = [_passage(title, "".join(sentences)) for title, sentences in corpus.items()]
        by_title: dict[str, str] = {one.title: one.passage_id for one in passages}
        questions = [(row["_id"], row["question"]) for row in rows]
        judged: list[tuple[str, str]] = [
            (row["_id"], by_title.get(str(title), str(title))) for row in rows for title, _ in row["supporting_facts"]
        ]
        floor = 0.60
    else:
        # A passage that several questions come with is in the corpus once.
        passages = list(
            {one.passage_id: one for one in (_passage(row["title"], row["text"]) for row in corpus)}.values()
        )
        questions = [(row["id"], row["question"]) for row in rows]
        judged = [
            (row["id"], _passage(one["title"], one["paragraph_text"]).passage_id)
            for row in rows
            for one in row["paragraphs"]
            if one["is_supporting"]
        ]
        floor = 0.35
    return joined(name, passages, questions, judged, by_document=True, floor=floor)


def _passage(title: str, text: str) -> Passage:
    return Passage(hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16], text.strip(), title, "en", title)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
