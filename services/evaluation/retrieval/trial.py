"""Puts one collection through the product, stage by stage."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from services.evaluation.retrieval import identifiers
from services.evaluation.retrieval.clients import Embedded, Found, RetrievalClient
from services.evaluation.retrieval.collection import Collection, Passage, Question
from services.evaluation.retrieval.measures import Measured, measure
from services.evaluation.retrieval.server import Product
from services.evaluation.retrieval.stages import BM25, STAGES, TRIVIAL, Stage
from services.evaluation.retrieval.trivial import shared_words
from services.runtime.errors import ServiceError

TOP_K = 100
_AT_A_TIME = 4
_PUT_AT_A_TIME = 64


@dataclass
class Trial:
    """What came out of one collection: measures by name of the stage.

    `truncated_count`: passages whose end the model does not read. `false_share`: of the questions for identifiers that
    nobody has, how many find words that score like those of a known one; None where there are no such questions.
    `failures`: why questions got no answer, by stage.
    """

    collection: Collection
    measured: dict[str, Measured] = field(default_factory=dict[str, Measured])
    truncated_count: int = 0
    blank_count: int = 0
    false_share: float | None = None
    seconds: float = 0.0
    failures: dict[str, str] = field(default_factory=dict[str, str])


async def run(
    collection: Collection, product: Product, say: Callable[[str], None], stages: Sequence[Stage] = STAGES
) -> Trial:
    """Stores all passages of the collection and asks all of its questions in each of the `stages`."""
    started = time.monotonic()
    trial = Trial(collection, blank_count=sum(one.is_blank for one in collection.passages))
    asked = [one for one in collection.questions if one.relevant]
    unknown = [one for one in collection.questions if not one.relevant]
    trial.measured[TRIVIAL] = measure(asked, shared_words(collection.passages, asked, TOP_K))
    ids = document_ids(collection.passages)
    async with product.empty_retrieval() as retrieval:
        await _store(collection, product, retrieval, ids, trial, say)
        names = {document: passage for passage, document in ids.items()}
        for stage in stages:
            answers = await _ask(collection.name, retrieval, [*asked, *unknown], stage, trial)
            rankings = {each: [names[one.document_id] for one in found] for each, found in answers.items()}
            trial.measured[stage.name] = measure(asked, rankings)
            if stage is BM25 and unknown:
                trial.false_share = false_share(collection.questions, answers)
            say(f"  {collection.name}: {stage.name}")
    trial.seconds = time.monotonic() - started
    return trial


def document_ids(passages: Sequence[Passage]) -> dict[str, str]:
    """Ids that the product accepts, in the order of the collection's own ids: equal scores are ordered by them."""
    return {each: f"p{place:07d}" for place, each in enumerate(sorted(one.passage_id for one in passages))}


def false_share(questions: Sequence[Question], answers: Mapping[str, Sequence[Found]]) -> float:
    """Share of the unknown identifiers that no `score_threshold` would keep out.

    Their best passage scores, by its words, at least as well as the best passage of some known one of the same kind.
    """
    best = {each: max((one.words_score for one in found), default=0.0) for each, found in answers.items()}
    least: dict[str, float] = {}
    for one in questions:
        if one.relevant and one.question_id in best:
            least[one.kind] = min(least.get(one.kind, best[one.question_id]), best[one.question_id])
    unknown = [one for one in questions if not one.relevant]
    false = [
        one
        for one in unknown
        if best.get(one.question_id, 0.0) >= least.get(one.kind.removeprefix(identifiers.UNKNOWN), 0.0)
    ]
    return len(false) / len(unknown)


async def _store(
    collection: Collection,
    product: Product,
    retrieval: RetrievalClient,
    ids: Mapping[str, str],
    trial: Trial,
    say: Callable[[str], None],
) -> None:
    languages = sorted({one.language for one in collection.passages})
    await retrieval.create(collection.name, collection.name, languages[0] if len(languages) == 1 else "")
    shown = sorted((one for one in collection.passages if not one.is_blank), key=lambda one: one.language)
    done = 0
    for _, group in groupby(shown, key=lambda one: one.language):
        same_language = list(group)
        for start in range(0, len(same_language), _PUT_AT_A_TIME):
            batch = same_language[start : start + _PUT_AT_A_TIME]
            embedded = await product.embedding.embed(batch)
            trial.truncated_count += sum(one.truncated for one in embedded)
            await _put(collection.name, retrieval, ids, list(zip(batch, embedded, strict=True)))
            done += len(batch)
            if done % 512 < _PUT_AT_A_TIME:
                say(f"  {collection.name}: {done} of {len(shown)} passages stored")


async def _put(
    name: str, retrieval: RetrievalClient, ids: Mapping[str, str], pairs: Sequence[tuple[Passage, Embedded]]
) -> None:
    await asyncio.gather(*(retrieval.put(name, ids[one.passage_id], one, vectors) for one, vectors in pairs))


async def _ask(
    name: str, retrieval: RetrievalClient, questions: Sequence[Question], stage: Stage, trial: Trial
) -> dict[str, list[Found]]:
    """Answers by question; one that failed is not there."""
    free = asyncio.Semaphore(_AT_A_TIME)
    answers: dict[str, list[Found]] = {}

    async def ask(one: Question) -> None:
        async with free:
            try:
                answers[one.question_id] = await retrieval.search(name, one.text, stage, TOP_K)
            except ServiceError as error:
                trial.failures.setdefault(stage.name, error.message)

    await asyncio.gather(*(ask(one) for one in questions))
    return answers
