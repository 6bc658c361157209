"""Document search by more than the query as written: made self-contained, reworded, taken apart, or step by step."""

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from services.orchestrator import metrics
from services.orchestrator.documents import DocumentQuery, Documents
from services.orchestrator.fusion import fused
from services.orchestrator.model import Message
from services.orchestrator.query_shape import Shape, identifiers, leans_on_history, numbers, shape
from services.orchestrator.query_writer import (
    MAX_PARAPHRASES,
    MAX_PASSAGE_CHARS,
    MAX_QUERY_CHARS,
    MAX_SUB_QUESTIONS,
    BroaderQuestion,
    HypotheticalPassage,
    NextSearch,
    NotWritten,
    Paraphrases,
    QueryWriter,
    SearchPlan,
    StandaloneQuery,
    SubQuestions,
)
from services.orchestrator.results import Degraded, Passages
from services.runtime.errors import DeadlineExceeded, ServiceError

MAX_STEPS = 3
# More to choose from than is asked for: what several searches agree on rises.
_LEAST_DEPTH = 10
_LEAST_SECONDS = 0.05
_HISTORY_MESSAGES, _HISTORY_CHARS = 6, 600
_SHOWN_PASSAGES, _SHOWN_CHARS = 10, 400


class Transform(Enum):
    """What is searched besides the query. `AUTO`: told from the query where its words tell, else by the model."""

    NONE = "none"
    HYDE = "hyde"
    MULTI_QUERY = "multi_query"
    DECOMPOSE = "decompose"
    STEP_BACK = "step_back"
    MULTI_STEP = "multi_step"
    AUTO = "auto"


@dataclass(frozen=True)
class SearchPolicy:
    """How documents are searched. `search_seconds` bound one search, `model_seconds` one model turn for it.

    `rewrite`: queries that lean on the conversation are made self-contained. `route`: collections are chosen by their
    descriptions where none is named and there are several.
    """

    transform: Transform = Transform.NONE
    rewrite: bool = True
    route: bool = True
    search_seconds: float = 5
    model_seconds: float = 6

    def seconds(self, history: Sequence[Message]) -> float:
        """Time for one call of the tool, with all that may be part of it."""
        first = self.search_seconds + (self.model_seconds if self.rewrite and history else 0)
        more = self.model_seconds + self.search_seconds
        if self.transform in (Transform.MULTI_STEP, Transform.AUTO):
            return first + (MAX_STEPS - 1) * more
        return first + (0 if self.transform is Transform.NONE else more)


@dataclass(frozen=True)
class _Planned:
    """The queries besides the own one, and why there are none if the model failed."""

    transform: Transform
    queries: tuple[DocumentQuery, ...] = ()
    failure: str = ""


class DocumentSearch:
    """Document search of one run."""

    def __init__(
        self, documents: Documents, writer: QueryWriter, policy: SearchPolicy, history: Sequence[Message] = ()
    ) -> None:
        self._documents = documents
        self._writer = writer
        self._policy = policy
        spoken = [one for one in history if one.role in ("user", "assistant") and one.text.strip()]
        self._history = [replace(one, text=one.text[:_HISTORY_CHARS]) for one in spoken[-_HISTORY_MESSAGES:]]

    def context(self, query: str) -> str:
        """What of the conversation the result of a query depends on, as a digest; empty for most."""
        if not self._leans(query):
            return ""
        said = json.dumps([[one.role, one.text] for one in self._history])
        return hashlib.sha256(said.encode()).hexdigest()

    def _leans(self, query: str) -> bool:
        return self._policy.rewrite and bool(self._history) and leans_on_history(query)

    async def find(self, wanted: DocumentQuery, seconds: float) -> Passages:
        """The best passages within `seconds`. A model that fails costs the transformation, not the search.

        Raises ServiceError when no search gave anything.
        """
        ends = time.monotonic() + seconds - min(_LEAST_SECONDS, seconds / 10)
        failures: list[str] = []
        query = wanted
        if self._leans(wanted.text):
            query = await self._self_contained(wanted, ends, failures)
        transform = self._policy.transform
        if transform is not Transform.NONE and shape(query.text) is Shape.EXACT:
            transform = Transform.NONE if transform is Transform.AUTO or identifiers(query.text) else transform
        if transform is Transform.MULTI_STEP:
            found = await self._step_by_step(query, ends, failures)
        else:
            found = await self._widened(query, transform, ends, failures)
        if query != wanted and not found.queries:
            found = replace(found, queries=(query.text,))
        degraded = tuple(Degraded("query_transform", one) for one in dict.fromkeys(failures))
        return replace(found, degraded=found.degraded + degraded)

    async def _self_contained(self, wanted: DocumentQuery, ends: float, failures: list[str]) -> DocumentQuery:
        """The query with what it leaves to the conversation put in; as it is when that fails."""
        try:
            filled = await self._writer.fill(StandaloneQuery, wanted.text, self._share(ends), self._history)
            text = filled.standalone_query[:MAX_QUERY_CHARS]
            lost = set(identifiers(wanted.text)) - set(identifiers(text)) or numbers(wanted.text) - numbers(text)
            if lost:
                raise NotWritten("the rewritten query lost a number or code")
        except NotWritten as problem:
            metrics.QUERY_TRANSFORMS.labels("rewrite", "failed").inc()
            failures.append(str(problem))
            return wanted
        metrics.QUERY_TRANSFORMS.labels("rewrite", "ok").inc()
        return replace(wanted, text=text)

    async def _widened(self, query: DocumentQuery, transform: Transform, ends: float, failures: list[str]) -> Passages:
        """The query itself is searched while the model writes the others; those then all at once."""
        if transform is Transform.NONE:
            return await self._one(query, ends)
        deep = replace(query, top_k=max(query.top_k, _LEAST_DEPTH))
        async with asyncio.TaskGroup() as group:
            own = group.create_task(self._attempt(deep, ends))
            plan = await self._planned(query, transform, ends)
            others = [group.create_task(self._attempt(replace(one, top_k=deep.top_k), ends)) for one in plan.queries]
        if plan.transform is Transform.MULTI_STEP:
            return await self._step_by_step(query, ends, failures, own.result())
        _count(plan.transform, plan.failure)
        failures += [plan.failure] if plan.failure else []
        texts = [query.text, *(one.text for one in plan.queries)]
        return _joined(plan.transform, texts, [own.result(), *(task.result() for task in others)], query.top_k)

    async def _planned(self, query: DocumentQuery, transform: Transform, ends: float) -> _Planned:
        if transform is Transform.AUTO and shape(query.text) is Shape.SEVERAL:
            transform = Transform.DECOMPOSE
        try:
            transform, texts = await self._written(query.text, transform, self._share(ends))
        except NotWritten as problem:
            return _Planned(transform, failure=str(problem))
        longest = MAX_PASSAGE_CHARS if transform is Transform.HYDE else MAX_QUERY_CHARS
        seen, queries = {_same(query.text)}, list[DocumentQuery]()
        for text in (text[:longest] for text in texts):
            if _same(text) and _same(text) not in seen:
                seen.add(_same(text))
                queries.append(replace(query, text=text, by_meaning=transform is Transform.HYDE))
        return _Planned(transform, tuple(queries))

    async def _written(self, text: str, transform: Transform, seconds: float) -> tuple[Transform, list[str]]:
        """The model's turn. Raises NotWritten."""
        fill = self._writer.fill
        match transform:
            case Transform.HYDE:
                return transform, [(await fill(HypotheticalPassage, text, seconds)).hypothetical_passage]
            case Transform.MULTI_QUERY:
                return transform, (await fill(Paraphrases, text, seconds)).paraphrases[:MAX_PARAPHRASES]
            case Transform.STEP_BACK:
                return transform, [(await fill(BroaderQuestion, text, seconds)).broader_question]
            case Transform.DECOMPOSE:
                return transform, (await fill(SubQuestions, text, seconds)).sub_questions[:MAX_SUB_QUESTIONS]
            case _:
                plan = await fill(SearchPlan, text, seconds)
                chosen = Transform(plan.transform)
                return chosen, [] if chosen is Transform.NONE else plan.queries[: _most(chosen)]

    async def _step_by_step(
        self,
        query: DocumentQuery,
        ends: float,
        failures: list[str],
        first: Passages | ServiceError | None = None,
    ) -> Passages:
        """Searches until the model is content, asks for what was searched already, or the steps or the time run out."""
        deep = replace(query, top_k=max(query.top_k, _LEAST_DEPTH))
        texts, found, failure = [query.text], [first or await self._attempt(deep, ends)], ""
        while len(texts) < MAX_STEPS and self._share(ends) >= _LEAST_SECONDS:
            try:
                wanted = await self._writer.fill(NextSearch, _so_far(texts, found), self._share(ends))
            except NotWritten as problem:
                failure = str(problem)
                failures.append(failure)
                break
            following = wanted.next_query[:MAX_QUERY_CHARS]
            if wanted.sufficient or not _same(following) or _same(following) in map(_same, texts):
                break
            texts.append(following)
            found.append(await self._attempt(replace(deep, text=following), ends))
        _count(Transform.MULTI_STEP, failure)
        return _joined(Transform.MULTI_STEP, texts, found, query.top_k)

    def _share(self, ends: float) -> float:
        """Time for a model turn: at most half of what is left, so that the search itself keeps the other."""
        return min(self._policy.model_seconds, max(0.0, ends - time.monotonic()) / 2)

    async def _one(self, query: DocumentQuery, ends: float) -> Passages:
        """One search. Raises ServiceError."""
        seconds = min(self._policy.search_seconds, max(0.0, ends - time.monotonic()))
        try:
            async with asyncio.timeout(seconds):
                return await self._documents.search(query, seconds)
        except TimeoutError:
            raise DeadlineExceeded(f"No answer within {seconds:.3g}s.", stage="retrieval") from None

    async def _attempt(self, query: DocumentQuery, ends: float) -> Passages | ServiceError:
        """One search of several: that it failed is for the end to judge."""
        try:
            return await self._one(query, ends)
        except ServiceError as error:
            return error


def _most(transform: Transform) -> int:
    many = {Transform.MULTI_QUERY: MAX_PARAPHRASES, Transform.DECOMPOSE: MAX_SUB_QUESTIONS}
    return many.get(transform, 0 if transform is Transform.MULTI_STEP else 1)


def _same(text: str) -> str:
    """Equal for texts that a search cannot tell apart."""
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())


def _count(transform: Transform, failure: str) -> None:
    metrics.QUERY_TRANSFORMS.labels(transform.value, "failed" if failure else "ok").inc()


def _joined(
    transform: Transform, texts: Sequence[str], found: Sequence[Passages | ServiceError], top_k: int
) -> Passages:
    """All that was found as one result. Raises the first error when there is nothing else."""
    good = [one for one in found if isinstance(one, Passages)]
    failed = [one for one in found if isinstance(one, ServiceError)]
    if not good:
        raise failed[0]
    degraded = [note for one in good for note in one.degraded]
    degraded += [Degraded("retrieval", one.message.rstrip(".")) for one in failed]
    several = len(texts) > 1
    return Passages(
        fused([one.passages for one in good], top_k),
        tuple(dict.fromkeys(degraded)),
        queries=tuple(texts) if several else (),
        transform=transform.value if several else "",
        collections=tuple(dict.fromkeys(name for one in good for name in one.collections)),
        off_topic=all(one.off_topic for one in good),
    )


def _so_far(texts: Sequence[str], found: Sequence[Passages | ServiceError]) -> str:
    passages = fused([one.passages for one in found if isinstance(one, Passages)], _SHOWN_PASSAGES)
    shown = [{"title": one.title, "section": one.section, "text": one.text[:_SHOWN_CHARS]} for one in passages]
    return json.dumps({"question": texts[0], "queries": list(texts), "passages": shown}, ensure_ascii=False)
