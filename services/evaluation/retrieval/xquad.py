"""Reads XQuAD (Artetxe et al. 2020) as retrieval: each question's passage is the paragraph that it was asked of."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.evaluation.retrieval.collection import Collection, Passage, joined

# Name: languages of the passages, language of the questions, least nDCG@10 of BM25.
TASKS: dict[str, tuple[Sequence[str], str, float]] = {
    "xquad-en": (["en"], "en", 0.85),
    "xquad-es": (["es"], "es", 0.85),
    # Words are hardly shared between languages: names and numbers only.
    "xquad-es-to-en": (["en"], "es", 0.05),
    # Both translations of the paragraph are relevant.
    "xquad-es-to-both": (["es", "en"], "es", 0.40),
}


def is_xquad(folder: Path) -> bool:
    """Whether a folder holds the English and the Spanish part."""
    return all((folder / f"xquad.{language}.json").is_file() for language in ("en", "es"))


def load(folder: Path, task: str) -> Collection:
    """One of `TASKS`. Raises BrokenCollection."""
    languages, asked_in, floor = TASKS[task]
    passages = [
        Passage(f"{language}:{title}:{at}", _clean(paragraph["context"]), "", language, title)
        for language in languages
        for title, at, paragraph in _paragraphs(folder, language)
    ]
    questions: list[tuple[str, str]] = []
    judged: list[tuple[str, str]] = []
    for title, at, paragraph in _paragraphs(folder, asked_in):
        for each in paragraph["qas"]:
            questions.append((each["id"], _clean(each["question"])))
            judged += [(each["id"], f"{language}:{title}:{at}") for language in languages]
    return joined(task, passages, questions, judged, by_document=True, family="xquad", floor=floor)


def _paragraphs(folder: Path, language: str) -> list[tuple[str, int, dict[str, Any]]]:
    """Title of the article, place in it, and paragraph. Titles are English in every language."""
    articles = json.loads((folder / f"xquad.{language}.json").read_text(encoding="utf-8"))["data"]
    return [(each["title"], at, paragraph) for each in articles for at, paragraph in enumerate(each["paragraphs"])]


def _clean(text: str) -> str:
    return text.replace("\ufeff", "").strip()
