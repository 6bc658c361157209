"""The baseline that a search engine has to beat: how many words of the question are in the passage?"""

import re
from collections.abc import Sequence

from services.evaluation.retrieval.collection import Passage, Question

_WORD = re.compile(r"\w+")


def shared_words(passages: Sequence[Passage], questions: Sequence[Question], top_k: int) -> dict[str, list[str]]:
    """Passage ids by question, by the number of different words shared; equal ones by id. Without any: not there."""
    holders: dict[str, set[str]] = {}
    for one in passages:
        for word in _words(f"{one.title}\n{one.text}"):
            holders.setdefault(word, set()).add(one.passage_id)
    found: dict[str, list[str]] = {}
    for question in questions:
        counts: dict[str, int] = {}
        for word in _words(question.text):
            for passage in holders.get(word, ()):
                counts[passage] = counts.get(passage, 0) + 1
        found[question.question_id] = sorted(counts, key=lambda each: (-counts[each], each))[:top_k]
    return found


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
