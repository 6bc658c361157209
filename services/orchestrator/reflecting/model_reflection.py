"""Reflection by prompt: the model that answers, or another, judges question, passages and answer."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from services.orchestrator.citing.claims import MARKS, numbers, pieces
from services.orchestrator.citing.review import Draft, Review
from services.orchestrator.citing.source_text import read
from services.orchestrator.events import Finding, FindingKind
from services.orchestrator.model import Message, Model, Spent
from services.orchestrator.query_writer import Form, NotWritten, QueryWriter
from services.orchestrator.reflecting import metrics
from services.orchestrator.reflecting.forms import (
    MAX_PASSAGES,
    MAX_SENTENCES,
    AnswerCheck,
    EvidenceNeed,
    RelevantPassages,
)
from services.orchestrator.reflecting.reflection import MARKED, Reflecting
from services.orchestrator.refusal import refusal
from services.orchestrator.results import Degraded, Found, Page, Pages, Passage, Passages, Source

_PASSAGE_CHARS, _SOURCE_CHARS, _ALL_SOURCES_CHARS, _SENTENCE_CHARS = 1_200, 2_400, 24_000, 600
_HISTORY_MESSAGES, _HISTORY_CHARS = 6, 600
_LEAST_SECONDS = 0.05
Filled = TypeVar("Filled", bound=Form)


class ModelReflection:
    """One turn for each question. Where the model does not answer, everything counts as needed, relevant and right."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def needs_evidence(self, question: str, history: Sequence[Message], spent: Spent, seconds: float) -> bool:
        """See Reflection."""
        spoken = [one for one in history if one.role in ("user", "assistant") and one.text.strip()]
        short = [replace(one, text=one.text[:_HISTORY_CHARS]) for one in spoken[-_HISTORY_MESSAGES:]]
        filled = await self._ask(EvidenceNeed, question, spent, seconds, short)
        return filled is None or filled.needs_evidence

    async def relevant(self, question: str, found: Found, spent: Spent, seconds: float) -> Found:
        """See Reflection. Where the model finds nothing relevant, the best one is kept: it may be wrong, too."""
        match found:
            case Passages() if len(found.passages) > 1:
                shown = [_shown(at, one) for at, one in enumerate(found.passages[:MAX_PASSAGES], start=1)]
                kept = await self._chosen(question, shown, spent, seconds)
                return replace(found, passages=_kept(found.passages, kept))
            case Pages() if len(found.pages) > 1:
                shown = [_shown(at, one) for at, one in enumerate(found.pages[:MAX_PASSAGES], start=1)]
                kept = await self._chosen(question, shown, spent, seconds)
                return replace(found, pages=_kept(found.pages, kept))
            case _:
                return found

    async def judge(self, draft: Draft, mode: Reflecting, spent: Spent, seconds: float) -> Review:
        """See Reflection."""
        parts = pieces(draft.answer)
        said = [at for at, one in enumerate(parts) if _says(one)][:MAX_SENTENCES]
        if not said or not draft.sources:
            return Review(draft.answer)
        text = _checked_text(draft, {number: parts[at] for number, at in enumerate(said, start=1)})
        filled = await self._ask(AnswerCheck, text, spent, seconds)
        if filled is None:
            return Review(draft.answer, degraded=(Degraded("reflection", "the model did not judge the answer"),))
        wrong = {said[number - 1] for number in filled.unsupported if 1 <= number <= len(said)}
        findings = [Finding(FindingKind.UNSUPPORTED, _bare(parts[at]), _UNSUPPORTED) for at in sorted(wrong)]
        if not filled.useful:
            findings.append(Finding(FindingKind.NOT_USEFUL, "", "it does not answer the question that was asked"))
        metrics.JUDGED.labels("useful" if filled.useful else "not_useful").inc()
        metrics.UNSUPPORTED_SENTENCES.inc(len(wrong))
        if mode is Reflecting.DROP and wrong.issuperset(said):
            return Review(refusal(draft.question), findings, withdrawn=True)
        return Review(_written(parts, wrong, mode), findings)

    async def _chosen(
        self, question: str, shown: Sequence[Mapping[str, object]], spent: Spent, seconds: float
    ) -> Collection[int] | None:
        text = json.dumps({"question": question, "passages": shown}, ensure_ascii=False)
        filled = await self._ask(RelevantPassages, text, spent, seconds)
        return None if filled is None else {number - 1 for number in filled.relevant}

    async def _ask(
        self, form: type[Filled], text: str, spent: Spent, seconds: float, history: Sequence[Message] = ()
    ) -> Filled | None:
        if seconds < _LEAST_SECONDS:
            return None
        try:
            return await QueryWriter(self._model, spent).fill(form, text, seconds, history)
        except NotWritten:
            metrics.NOT_JUDGED.labels(form.__name__).inc()
            return None


_UNSUPPORTED = "the model, asked again, does not find it supported"


def _shown(number: int, source: Passage | Page) -> Mapping[str, object]:
    text = source.text if isinstance(source, Passage) else source.snippet
    return {"number": number, "title": source.title, "text": text[:_PASSAGE_CHARS]}


Kind = TypeVar("Kind", Passage, Page)


def _kept(found: tuple[Kind, ...], chosen: Collection[int] | None) -> tuple[Kind, ...]:
    """Those that were chosen, and those behind the last that the model was shown."""
    if chosen is None:
        return found
    kept = tuple(one for at, one in enumerate(found) if at in chosen or at >= MAX_PASSAGES)
    return kept or found[:1]


def _checked_text(draft: Draft, sentences: Mapping[int, str]) -> str:
    cited = dict.fromkeys(mark for one in sentences.values() for row in MARKS.finditer(one) for mark in numbers(row[0]))
    order = [*(mark for mark in cited if mark in draft.sources), *(mark for mark in draft.sources if mark not in cited)]
    return json.dumps(
        {
            "question": draft.question,
            "sentences": [
                {
                    "number": number,
                    "text": _bare(one)[:_SENTENCE_CHARS],
                    "cites": [mark for row in MARKS.finditer(one) for mark in numbers(row[0])],
                }
                for number, one in sentences.items()
            ],
            "sources": [{"number": mark, "text": text} for mark, text in _texts(order, draft.sources)],
        },
        ensure_ascii=False,
    )


def _texts(order: Sequence[int], sources: Mapping[int, Source]) -> list[tuple[int, str]]:
    """The texts of as many sources as there is room for, those that are cited first."""
    texts: list[tuple[int, str]] = []
    left = _ALL_SOURCES_CHARS
    for mark in order:
        text = read(sources[mark]).text[:_SOURCE_CHARS]
        left -= len(text)
        if left < 0 and texts:
            break
        texts.append((mark, text))
    return texts


def _says(piece: str) -> bool:
    return any(character.isalnum() for character in _bare(piece))


def _bare(piece: str) -> str:
    return MARKS.sub("", piece).strip()


def _written(parts: Sequence[str], wrong: Collection[int], mode: Reflecting) -> str:
    """The answer, with the sentences in question marked or left out, and nothing else changed."""
    if mode is Reflecting.DROP:
        return "".join(one for at, one in enumerate(parts) if at not in wrong).strip()
    return "".join(_marked(one) if at in wrong else one for at, one in enumerate(parts))


def _marked(piece: str) -> str:
    """The piece with the mark behind its last word and its citations, before what follows."""
    text = piece.rstrip()
    return f"{text} {MARKED}{piece[len(text) :]}"
