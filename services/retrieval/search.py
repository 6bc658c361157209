"""The search: one embedding of the query, one hybrid query of the store, one rerank, the best of it."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.retrieval.codes import codes, held
from services.retrieval.language import query_languages
from services.retrieval.ranking import combined
from services.retrieval.store import ANY, Filter, Hit, Mode, Query, SparseTerms, Store, TokenMatrix
from services.runtime import context
from services.runtime.errors import ServiceError

log = logging.getLogger(__name__)

# A reranker that failed is left alone for so long, lest every search pay its time limit.
_PAUSE_SECONDS = 1.0
_ROOM_FOR_CODES = 3
# What a search keeps back of the caller's time to answer with.
_RESERVE_SECONDS = 0.02


@dataclass(frozen=True)
class QueryVectors:
    """A query as the embedding service sees it. Vectors of different models do not compare."""

    model: str
    dense: Sequence[float]
    sparse: SparseTerms
    tokens: TokenMatrix | None


class Embedder(Protocol):
    """Turns queries into vectors."""

    async def embed_query(self, text: str, languages: Sequence[str], *, with_tokens: bool) -> QueryVectors:
        """Vectors of `text`, its words stemmed in each of the `languages`. Raises a ServiceError."""
        ...


class Reranker(Protocol):
    """Scores candidates against a query. Both methods raise a ServiceError."""

    async def reads_tokens(self) -> bool:
        """Whether it wants token vectors rather than texts."""
        ...

    async def scores(self, query: str, tokens: TokenMatrix | None, hits: Sequence[Hit]) -> Sequence[float]:
        """One score a hit, in the order of `hits`; higher is better."""
        ...


@dataclass(frozen=True)
class Request:
    """What a caller looks for. `top_k` is the number of passages wanted."""

    query: str
    top_k: int = 5
    mode: Mode = Mode.HYBRID
    rerank: bool = True
    filter: Filter = ANY


@dataclass(frozen=True)
class Ranked:
    """A hit in its final place. `rerank` is 0 where the reranker did not see it."""

    hit: Hit
    score: float
    rerank: float = 0.0


@dataclass
class Result:
    """Passages by descending score, seconds per stage, and what was skipped because it failed."""

    passages: list[Ranked] = field(default_factory=list[Ranked])
    stage_seconds: dict[str, float] = field(default_factory=dict[str, float])
    degraded: list[str] = field(default_factory=list[str])


class Searcher:
    """Finds passages for a tenant. A lost reranker costs quality, not the answer."""

    def __init__(
        self, store: Store, embedder: Embedder, reranker: Reranker, *, candidates: int, rerank_seconds: float
    ) -> None:
        """`candidates`: hits that are reranked; `rerank_seconds`: time after which a search goes on without."""
        self._store = store
        self._embedder = embedder
        self._reranker = reranker
        self._candidates = candidates
        self._rerank_seconds = rerank_seconds
        self._pause_until = 0.0

    async def search(self, tenant: str, request: Request) -> Result:
        """Raises NotFound (collection) and DependencyFailed (embedding, store)."""
        result = Result()
        wanted_codes = codes(request.query)
        reads_tokens = await self._reads_tokens(result) if request.rerank else None
        with _timed(result, "embed"):
            vectors = await self._embed(tenant, request, with_tokens=reads_tokens is True)
        with _timed(result, "search"):
            # Passages that only the words find lose against those that both legs find: an identifier needs more room.
            room = _ROOM_FOR_CODES * self._candidates if wanted_codes else self._candidates
            limit = max(request.top_k, room)
            hits = await self._store.search(
                tenant,
                Query(
                    request.mode,
                    vectors.model,
                    vectors.dense,
                    vectors.sparse,
                    limit,
                    request.filter,
                    with_tokens=reads_tokens is True,
                ),
            )
        ranked: list[Ranked] | None = None
        if reads_tokens is not None and hits:
            with _timed(result, "rerank"):
                ranked = await self._rerank(request.query, vectors.tokens, hits, result)
        if ranked is None:
            final = combined(hits) if request.mode is Mode.HYBRID else [hit.fused for hit in hits]
            ranked = [Ranked(*one) for one in zip(hits, final, strict=True)]
        # Equal scores come in the same order each time.
        ranked.sort(key=lambda one: (-held(wanted_codes, one.hit.chunk), -one.score, one.hit.chunk.chunk_id))
        result.passages = ranked[: request.top_k]
        return result

    async def _embed(self, tenant: str, request: Request, *, with_tokens: bool) -> QueryVectors:
        wanted = request.filter
        known = [wanted.language] if wanted.language else await self._store.languages(tenant, wanted.collections)
        languages = query_languages(request.query, known)
        return await self._embedder.embed_query(request.query, languages, with_tokens=with_tokens)

    async def _reads_tokens(self, result: Result) -> bool | None:
        """None when there will be no rerank."""
        if time.monotonic() < self._pause_until:
            result.degraded.append("reranking")
            return None
        try:
            async with asyncio.timeout(self._rerank_limit()):
                return await self._reranker.reads_tokens()
        except (ServiceError, TimeoutError) as error:
            self._lose_reranker(result, error)
            return None

    async def _rerank(
        self, query: str, tokens: TokenMatrix | None, hits: Sequence[Hit], result: Result
    ) -> list[Ranked] | None:
        try:
            async with asyncio.timeout(self._rerank_limit()):
                scores = await self._reranker.scores(query, tokens, hits)
        except (ServiceError, TimeoutError) as error:
            self._lose_reranker(result, error)
            return None
        final = combined(hits, scores)
        return [Ranked(*one) for one in zip(hits, final, scores, strict=True)]

    def _lose_reranker(self, result: Result, error: Exception) -> None:
        self._pause_until = time.monotonic() + _PAUSE_SECONDS
        result.degraded.append("reranking")
        log.warning("search goes on without reranking", extra={"reason": str(error) or type(error).__name__})

    def _rerank_limit(self) -> float:
        call = context.current()
        left = call.seconds_left() if call else None
        return self._rerank_seconds if left is None else max(0.0, min(self._rerank_seconds, left - _RESERVE_SECONDS))


class _timed:
    """Adds the seconds of a `with` block to the result's stages."""

    def __init__(self, result: Result, stage: str) -> None:
        self._result = result
        self._stage = stage

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._result.stage_seconds[self._stage] = time.perf_counter() - self._started
