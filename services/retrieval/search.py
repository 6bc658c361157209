"""The search: embed the query, ask the store for candidates, join the legs, rerank, and take the best of it."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from services.retrieval import ranking, variety
from services.retrieval.codes import held, named
from services.retrieval.language import query_languages, spoken
from services.retrieval.ranking import Fitness, Fusion
from services.retrieval.routing import Routed, Router
from services.retrieval.store import (
    ANY,
    LEG_LIMIT,
    Filter,
    Hit,
    Mode,
    Query,
    QueryVectors,
    Reader,
    Store,
)
from services.runtime import context
from services.runtime.errors import DependencyFailed, ModelMismatch, ServiceError

log = logging.getLogger(__name__)

# A reranker that failed is left alone for so long, lest every search pay its time limit.
_PAUSE_SECONDS = 1.0
# Passages that only the words find lose against those that both legs find: what is named exactly needs more room.
_ROOM_FOR_CODES = 3
# What a search keeps back of the caller's time to answer with.
_RESERVE_SECONDS = 0.02


class Embedder(Protocol):
    """Turns texts into vectors of one model. All methods raise a ServiceError."""

    async def languages(self) -> Sequence[str]:
        """Languages that the model was trained for; none means that it is not known, or any."""
        ...

    async def embed_query(self, text: str, languages: Sequence[str], *, with_tokens: bool) -> QueryVectors:
        """Vectors of a query, its words stemmed in each of the `languages`."""
        ...


class Embedders(Protocol):
    """The embedding services that are configured."""

    async def by_model(self) -> Mapping[str, Embedder]:
        """The embedder of each model that is served now. Raises DependencyFailed when none answers."""
        ...


class Reranker(Protocol):
    """Scores texts against a query."""

    async def scores(self, query: str, hits: Sequence[Hit]) -> Sequence[float]:
        """One score a hit, in the order of `hits`; higher is better. Raises a ServiceError."""
        ...


@dataclass(frozen=True)
class Request:
    """What a caller looks for. `top_k` is the number of passages wanted; `fusion` None means the server's default.

    `score_threshold` is a cosine similarity, in a sparse search a BM25 score. `diversity` is from 0 to 1.
    """

    query: str
    top_k: int = 5
    mode: Mode = Mode.HYBRID
    rerank: bool = True
    filter: Filter = ANY
    fusion: Fusion | None = None
    score_threshold: float | None = None
    diversity: float = 0.0
    max_per_document: int = 0
    route: bool = False


@dataclass(frozen=True)
class Ranked:
    """A hit in its final place. `fused` is the first stage's score; `rerank` is 0 where the reranker did not see it.

    `held`: what the passage holds of what the query names exactly, see codes.held.
    """

    hit: Hit
    score: float
    fused: float = 0.0
    rerank: float = 0.0
    held: tuple[int, int] = (0, 0)


@dataclass
class Result:
    """Passages by descending score, seconds per stage, what was skipped, and what routing thought."""

    passages: list[Ranked] = field(default_factory=list[Ranked])
    stage_seconds: dict[str, float] = field(default_factory=dict[str, float])
    degraded: list[str] = field(default_factory=list[str])
    routed: list[Routed] = field(default_factory=list[Routed])

    def skipped(self, what: str) -> None:
        """Notes once that something was left out."""
        if what not in self.degraded:
            self.degraded.append(what)


class Searcher:
    """Finds passages for a reader. A lost reranker costs quality, not the answer."""

    def __init__(
        self,
        store: Store,
        embedders: Embedders,
        reranker: Reranker | None,
        *,
        router: Router | None = None,
        fusion: Fusion = Fusion.CALIBRATED,
        candidates: int = 40,
        rerank_seconds: float = 0.4,
    ) -> None:
        """`reranker` None: late interaction over the token vectors that the store holds.

        `candidates`: hits that are reranked; `rerank_seconds`: time after which a search goes on without.
        """
        self._store = store
        self._embedders = embedders
        self._reranker = reranker
        self._router = router
        self._fusion = fusion
        self._candidates = candidates
        self._rerank_seconds = rerank_seconds
        self._pause_until = 0.0

    async def search(self, reader: Reader, request: Request) -> Result:
        """Raises NotFound (collection), ModelMismatch and DependencyFailed (embedding, store)."""
        result = Result()
        embedded: QueryVectors | None = None
        models = await self._store.models(reader, request.filter.collections)
        if request.route and self._router is not None:
            embedded, known = await asyncio.gather(
                self._embedded_once(reader, request, models, result), self._store.list_collections(reader)
            )
            with _timed(result, "route"):
                among = [one for one in known if one.name in models]
                result.routed = await self._router.route(request.query, among, embedded)
            models = {one.name: models[one.name] for one in result.routed if one.chosen}
            if not models:
                return result
            request = replace(request, filter=replace(request.filter, collections=list(models)))
        ranked = await self._found(reader, request, models, embedded, result)
        result.passages = _best(ranked, request)
        return result

    async def _embedded_once(
        self, reader: Reader, request: Request, models: Mapping[str, str], result: Result
    ) -> QueryVectors | None:
        """The query for routing and search alike. None where the collections are of several models, or of none."""
        searches = await self._searches(request, models)
        if len(searches) != 1:
            return None
        [(_, embedder, _)] = searches
        return await self._embed(reader, request, embedder, result)

    async def _embed(self, reader: Reader, request: Request, embedder: Embedder, result: Result) -> QueryVectors:
        late = request.rerank and self._reranker is None
        with _timed(result, "embed"):
            known = [request.filter.language] if request.filter.language else []
            known = known or await self._store.languages(reader, request.filter.collections)
            languages = query_languages(request.query, known)
            return await embedder.embed_query(request.query, languages, with_tokens=late)

    async def _found(
        self,
        reader: Reader,
        request: Request,
        models: Mapping[str, str],
        embedded: QueryVectors | None,
        result: Result,
    ) -> list[Ranked]:
        """Candidates of all `models`. Looks again when a collection moved to another one meanwhile."""
        while True:
            searches = await self._searches(request, models)
            found = await asyncio.gather(
                *(
                    self._ranked(
                        reader, one, embedder, embedded if embedded and embedded.model == model else None, result
                    )
                    for model, embedder, one in searches
                )
            )
            before, models = models, await self._store.models(reader, request.filter.collections)
            if models == before:
                return [one for part in found for one in part]

    async def _searches(self, request: Request, models: Mapping[str, str]) -> list[tuple[str, Embedder, Request]]:
        """One search a model: vectors of different models do not compare. Raises ModelMismatch."""
        by_model: dict[str, list[str]] = {}
        for name, model in models.items():
            if model:  # an empty collection has none yet
                by_model.setdefault(model, []).append(name)
        if not by_model:
            return []
        served = await self._embedders.by_model()
        searches: list[tuple[str, Embedder, Request]] = []
        for model, names in sorted(by_model.items()):
            if model not in served:
                raise _mismatch(names[0], model, served)
            # One model for everything needs no condition on the collection.
            part = request.filter.collections if len(by_model) == 1 else names
            searches.append((model, served[model], replace(request, filter=replace(request.filter, collections=part))))
        return searches

    async def _ranked(
        self, reader: Reader, request: Request, embedder: Embedder, embedded: QueryVectors | None, result: Result
    ) -> list[Ranked]:
        wanted = named(request.query)
        vectors = embedded or await self._embed(reader, request, embedder, result)
        with _timed(result, "search"):
            limit = max(request.top_k, LEG_LIMIT * (_ROOM_FOR_CODES if wanted else 1))
            query = Query(
                request.mode,
                vectors.model,
                vectors.dense,
                vectors.sparse,
                limit,
                request.filter,
                with_vectors=request.diversity > 0,
            )
            hits = await self._store.search(reader, query)
        if not hits:
            return []
        fitness = await _fitness(request.query, embedder)
        first = ranking.fused(hits, request.mode, request.fusion or self._fusion, fitness)
        ranked = [
            Ranked(hit, score, score, held=held(wanted, hit.chunk)) for hit, score in zip(hits, first, strict=True)
        ]
        ranked.sort(key=_order)
        if request.rerank:
            with _timed(result, "rerank"):
                ranked = await self._reranked(reader, request, vectors, ranked, fitness, result)
        return ranked

    async def _reranked(
        self,
        reader: Reader,
        request: Request,
        vectors: QueryVectors,
        ranked: list[Ranked],
        fitness: Fitness,
        result: Result,
    ) -> list[Ranked]:
        """The first `candidates` with their final scores, the rest below them; all as they were when it failed."""
        count = max(self._candidates, request.top_k)
        head, tail = ranked[:count], ranked[count:]
        scores = await self._rerank_scores(reader, request.query, vectors, [one.hit for one in head], result)
        if scores is None or not any(score is not None for score in scores):
            return ranked
        # Standard scores are taken over all candidates: those that are reranked are the best of them.
        standard = ranking.standardised([one.fused for one in ranked])[: len(head)]
        final = ranking.added(standard, scores, fitness.late if self._reranker is None else 1.0)
        # Not `replace`, which takes three times as long, for each of forty.
        best = [
            Ranked(one.hit, score, one.fused, late or 0.0, one.held)
            for one, score, late in zip(head, final, scores, strict=True)
        ]
        floor = min(final)
        return best + [replace(one, score=floor - rank) for rank, one in enumerate(tail, start=1)]

    async def _rerank_scores(
        self, reader: Reader, query: str, vectors: QueryVectors, hits: Sequence[Hit], result: Result
    ) -> Sequence[float | None] | None:
        """None when there is no score to be had."""
        if time.monotonic() < self._pause_until:
            result.skipped("reranking")
            return None
        try:
            async with asyncio.timeout(self._rerank_limit()):
                if self._reranker is not None:
                    return await self._reranker.scores(query, hits)
                if vectors.tokens is None:
                    return None
                return await self._store.late_scores(reader, vectors.model, hits, vectors.tokens)
        except TimeoutError:
            result.skipped("reranking skipped")
            log.warning("search goes on without reranking", extra={"reason": "its time ran out"})
        except ServiceError as error:
            self._pause_until = time.monotonic() + _PAUSE_SECONDS
            result.skipped("reranking")
            log.warning("search goes on without reranking", extra={"reason": str(error)})
        return None

    def _rerank_limit(self) -> float:
        call = context.current()
        left = call.seconds_left() if call else None
        return self._rerank_seconds if left is None else max(0.0, min(self._rerank_seconds, left - _RESERVE_SECONDS))


def _best(ranked: list[Ranked], request: Request) -> list[Ranked]:
    """The `top_k` that come back."""
    if request.score_threshold is not None:
        least = request.score_threshold
        ranked = [one for one in ranked if _leg_score(one.hit, request.mode) >= least]
    ranked.sort(key=_order)
    ranked = variety.limited(variety.first_of_each_parent(ranked), request.max_per_document)
    if request.diversity > 0:
        return variety.diverse(ranked, request.diversity, request.top_k)
    return ranked[: request.top_k]


def _leg_score(hit: Hit, mode: Mode) -> float:
    return hit.sparse if mode is Mode.SPARSE else hit.dense


def _order(one: Ranked) -> tuple[int, int, float, str]:
    """What is named exactly comes first. Equal scores come in the same order each time."""
    codes, clauses = one.held
    return -codes, -clauses, -one.score, one.hit.chunk.chunk_id


async def _fitness(query: str, embedder: Embedder) -> Fitness:
    language = spoken(query)
    trained = await embedder.languages()
    return Fitness(language, not language or not trained or language in trained)


def _mismatch(collection: str, model: str, served: Mapping[str, Embedder]) -> ServiceError:
    if not served:
        return DependencyFailed("No embedding service answers.", dependency="embedding")
    names = ", ".join(f"`{name}`" for name in sorted(served))
    return ModelMismatch(
        f"The collection `{collection}` has vectors of the model `{model}`, and {names} is served. Serve that model"
        f" too (SABUESO_EMBEDDING_ADDRESS), or embed anew: sabueso collections migrate {collection}.",
        collection=collection,
        model=model,
    )


class _timed:
    """Adds the seconds of a `with` block to the result's stages; of searches side by side the longest counts."""

    def __init__(self, result: Result, stage: str) -> None:
        self._result = result
        self._stage = stage

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        took = time.perf_counter() - self._started
        self._result.stage_seconds[self._stage] = max(took, self._result.stage_seconds.get(self._stage, 0.0))
