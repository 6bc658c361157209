"""Has a model write questions and check them: what it cannot back with a quote, or knows anyway, is rejected."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from services.evaluation.answered import Json
from services.evaluation.golden.building import forms
from services.evaluation.golden.building.candidate import Candidate, Rejection
from services.evaluation.golden.building.chunk import Chunk, plain
from services.evaluation.golden.building.corpus import Corpus, words
from services.evaluation.golden.item import Stratum
from services.evaluation.judge.judge import Judge

# How many of the nearest chunks are shown to find out whether the corpus says something.
_LOOKED_AT = 6
# A question with this share of a passage's words, where the passage has so many, was copied from it.
_ECHOED, _LEAST_ECHOED = 0.8, 12


class Author:
    """Writes from chunks of `corpus`. All methods raise JudgeFailed and OverBudget.

    `writer` and `checker` may be one model; a checker of another family does not share the writer's blind spots.
    """

    def __init__(self, writer: Judge, checker: Judge, corpus: Corpus) -> None:
        self._writer = writer
        self._checker = checker
        self._corpus = corpus

    async def single_hop(self, chunk: Chunk, count: int) -> list[Candidate]:
        """At most `count` questions that need this chunk and no general knowledge."""
        facts: dict[str, Json] = {**_shown(chunk), "count": count}
        written = await self._write("questions", chunk.language, facts, forms.questions(count))
        return [await self._single(chunk, one) for one in _items(written)]

    async def multi_hop(self, first: Chunk, second: Chunk) -> list[Candidate]:
        """Questions that need both chunks."""
        facts: dict[str, Json] = {"first": _shown(first), "second": _shown(second)}
        written = await self._write("two_passages", first.language, facts, forms.TWO_PASSAGES)
        return [await self._double(first, second, one) for one in _items(written)]

    async def false_premise(self, chunk: Chunk) -> list[Candidate]:
        """A question that takes a changed fact for granted; the reference puts it right."""
        one = await self._write("false_premise", chunk.language, _shown(chunk), forms.FALSE_PREMISE)
        made = _candidate(one, chunk, Stratum.FALSE_PREMISE, reference=str(one["correction"]))
        if unusable := _unusable(made, [chunk], made.reference, one["premise"]):
            return [made.refused(unusable)]
        if not chunk.holds(str(one["quote"])):
            return [made.refused(Rejection.NOT_IN_PASSAGE, str(one["quote"]))]
        if chunk.holds(str(one["premise"])):
            return [made.refused(Rejection.UNCHANGED, str(one["premise"]))]
        if reason := await self._corpus_says("holds", chunk.language, str(one["premise"])):
            return [made.refused(Rejection.HELD, reason)]
        return [made]

    async def unanswerable(self, chunk: Chunk) -> list[Candidate]:
        """A question on the chunk's subject that nothing in the corpus answers."""
        one = await self._write("unanswerable", chunk.language, _shown(chunk), forms.UNANSWERABLE)
        made = _candidate(one, chunk, Stratum.UNANSWERABLE, reference=None)
        if unusable := _unusable(made, [chunk], made.question):
            return [made.refused(unusable)]
        if reason := await self._corpus_says("answers", chunk.language, made.question):
            return [made.refused(Rejection.ANSWERED, reason)]
        return [made]

    async def _single(self, chunk: Chunk, one: Mapping[str, Any]) -> Candidate:
        made = _candidate(one, chunk, Stratum.SINGLE_HOP, reference=str(one["reference"]).strip())
        if unusable := _unusable(made, [chunk], made.reference):
            return made.refused(unusable)
        if not chunk.holds(str(one["quote"])):
            return made.refused(Rejection.NOT_IN_PASSAGE, str(one["quote"]))
        return await self._checked(made, [chunk])

    async def _double(self, first: Chunk, second: Chunk, one: Mapping[str, Any]) -> Candidate:
        made = _candidate(one, first, Stratum.MULTI_HOP, reference=str(one["reference"]).strip())
        both = {"documents": [first.document, second.document], "chunks": [first.id, second.id]}
        made = made.model_copy(update=both)
        if unusable := _unusable(made, [first, second], made.reference):
            return made.refused(unusable)
        if not (first.holds(str(one["first_quote"])) and second.holds(str(one["second_quote"]))):
            return made.refused(Rejection.NOT_IN_PASSAGE)
        for alone in (first, second):
            if (await self._clear(made, [alone]))["answered"]:
                return made.refused(Rejection.ONE_PASSAGE, alone.document)
        return await self._checked(made, [first, second])

    async def _checked(self, made: Candidate, chunks: Sequence[Chunk]) -> Candidate:
        """Clear, answered by the chunks, and not known anyway."""
        clear = await self._clear(made, chunks)
        if not clear["answered"]:
            return made.refused(Rejection.NOT_IN_PASSAGE, str(clear["reason"]))
        if not (clear["by_itself"] and clear["one_answer"]):
            return made.refused(Rejection.AMBIGUOUS, str(clear["reason"]))
        if known := await self._known(made):
            return made.refused(Rejection.KNOWN, known)
        return made

    async def _clear(self, made: Candidate, chunks: Sequence[Chunk]) -> Mapping[str, Any]:
        facts: dict[str, Json] = {
            "question": made.question,
            "reference": made.reference,
            "passages": [_shown(one) for one in chunks],
        }
        return await self._check("clear", made.language, facts, forms.CLEAR)

    async def _known(self, made: Candidate) -> str:
        """What the model answers without the corpus, if that is right."""
        asked: dict[str, Json] = {"question": made.question}
        said = await self._check("closed_book", made.language, asked, forms.CLOSED_BOOK)
        answer = str(said["answer"]).strip()
        if not said["known"] or not answer:
            return ""
        if plain(answer) == plain(made.reference or ""):
            return answer
        facts: dict[str, Json] = {**asked, "reference": made.reference, "answer": answer}
        same = await self._check("same", made.language, facts, forms.SAME)
        return answer if same["same"] else ""

    async def _corpus_says(self, task: str, language: str, text: str) -> str:
        """Why the nearest chunks hold a statement, or answer a question; empty where they do not."""
        near: Json = [_shown(one) for one in self._corpus.nearest(text, _LOOKED_AT)]
        said = await self._check(task, language, {"text": text, "passages": near}, forms.FOUND)
        return (str(said["reason"]) or task) if said["found"] else ""

    async def _write(
        self, task: str, language: str, facts: Mapping[str, Json], schema: Mapping[str, Json]
    ) -> Mapping[str, Any]:
        return cast(Mapping[str, Any], await self._writer.ask(task, language, facts, schema))

    async def _check(
        self, task: str, language: str, facts: Mapping[str, Json], schema: Mapping[str, Json]
    ) -> Mapping[str, Any]:
        return cast(Mapping[str, Any], await self._checker.ask(task, language, facts, schema))


def _candidate(one: Mapping[str, Any], chunk: Chunk, stratum: Stratum, *, reference: str | None) -> Candidate:
    return Candidate(
        question=str(one["question"]).strip(),
        language=chunk.language,
        stratum=stratum,
        documents=[chunk.document],
        chunks=[chunk.id],
        reference=reference,
    )


def _unusable(made: Candidate, chunks: Sequence[Chunk], *needed: object) -> Rejection | None:
    """Why it is no question at all: something is missing, or a passage is in it."""
    if not made.question or not all(str(one or "").strip() for one in needed):
        return Rejection.EMPTY
    asked = words(made.question)
    for passage in (words(one.text) for one in chunks):
        if len(passage) >= _LEAST_ECHOED and len(passage & asked) > _ECHOED * len(passage):
            return Rejection.ECHO
    return None


def _shown(chunk: Chunk) -> dict[str, Json]:
    return {"title": chunk.title, "section": chunk.section, "text": chunk.text}


def _items(written: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(written["items"])
