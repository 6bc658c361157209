"""A test collection: passages, questions, and which passages answer which question."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

# Fewer judged ids than this that exist, and files were joined on the wrong ids: every measure would be noise.
LEAST_JOINED = 0.95


class BrokenCollection(ValueError):
    """The files do not fit together. The message names the collection and says what is wrong."""


@dataclass(frozen=True)
class Passage:
    """What is searched. `source` is the document that it was taken from; `language` is ISO 639-1."""

    passage_id: str
    text: str
    title: str = ""
    language: str = "en"
    source: str = ""

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to search: some collections hold empty documents."""
        return not f"{self.title}{self.text}".strip()


@dataclass(frozen=True)
class Question:
    """What is asked, and the ids of the passages that answer it; none where nothing does.

    `kind` tells questions apart that are looked at by themselves.
    """

    question_id: str
    text: str
    relevant: frozenset[str]
    kind: str = ""


@dataclass(frozen=True)
class Collection:
    """Passages and questions.

    `by_document`: questions are split by the documents that answer them, and not one by one. `family`: collections of
    one family are split alike. `floor`: nDCG@10 of BM25 below which the collection must have been read wrongly.
    """

    name: str
    passages: Sequence[Passage]
    questions: Sequence[Question]
    by_document: bool = False
    family: str = ""
    floor: float = 0.0

    def sha256(self) -> str:
        """Of all passages, in hex."""
        digest = hashlib.sha256()
        for one in sorted(self.passages, key=lambda one: one.passage_id):
            digest.update(json.dumps([one.passage_id, one.title, one.text, one.language]).encode())
        return digest.hexdigest()


def joined(
    name: str,
    passages: Sequence[Passage],
    questions: Sequence[tuple[str, str]],
    judged: Sequence[tuple[str, str]],
    *,
    by_document: bool = False,
    family: str = "",
    floor: float = 0.0,
) -> Collection:
    """The collection of `questions` (id, text) and `judged` pairs (question id, passage id).

    Questions without a judgement are left out. Raises BrokenCollection when less than 95 % of the judged ids exist, on
    either side, when ids come twice, or when nothing is judged.
    """
    known = {one.passage_id for one in passages}
    asked = dict(questions)
    for what, ids, count in (("passage", known, len(passages)), ("question", asked, len(questions))):
        if len(ids) != count:
            raise BrokenCollection(f"{name}: {count - len(ids)} {what} ids come twice")
    if not judged:
        raise BrokenCollection(f"{name}: no judgements")
    _check(name, "question", {question for question, _ in judged}, set(asked))
    _check(name, "passage", {passage for _, passage in judged}, known)
    relevant: dict[str, set[str]] = {}
    for question, passage in judged:
        if question in asked and passage in known:
            relevant.setdefault(question, set()).add(passage)
    found = [Question(each, text, frozenset(relevant[each])) for each, text in questions if each in relevant]
    return Collection(name, passages, found, by_document, family or name, floor)


def _check(name: str, what: str, judged: set[str], known: set[str]) -> None:
    share = len(judged & known) / len(judged)
    if share < LEAST_JOINED:
        lost = sorted(judged - known)[:3]
        raise BrokenCollection(
            f"{name}: only {share:.0%} of the judged {what} ids exist (not there: {', '.join(lost)}, …); "
            "judgements and texts were joined on different ids"
        )
