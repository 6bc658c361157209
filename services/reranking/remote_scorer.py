"""Asks a reranking server by URL: TEI, or one with the API of Cohere and Jina (Infinity, vLLM, llama.cpp)."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, cast

import numpy as np

from services.reranking.scorer import BrokenModel, Scored, Scores
from services.runtime.context import current
from services.runtime.errors import Overloaded
from services.runtime.model_server import ModelServer, Refused
from services.runtime.onnx_models import tokenizable

NAME = "reranking server"
# What TEI takes by default (`max_client_batch_size`).
_TEXTS_PER_REQUEST = 32
_REQUESTS_AT_ONCE = 4
# A text that is still too long then is refused for another reason.
_SHORTEST_CHARACTERS = 64
_NOT_FOUND = 404


class RerankApi(Protocol):
    """How a kind of server is asked, and where its answer has the scores."""

    @property
    def paths(self) -> Sequence[str]:
        """Where the method may be; the first that exists is used."""
        ...

    def body(self, model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        """The request."""
        ...

    def scores(self, answer: Any) -> list[tuple[int, float]]:
        """(place, score) pairs in any order. Raises ValueError, KeyError or TypeError when there are none."""
        ...


class TeiApi:
    """text-embeddings-inference. Raw scores: its softmax would make one of many texts' scores depend on the others."""

    paths = ("/rerank",)

    def body(self, model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        """TEI cuts the longer of query and text."""
        return {"query": query, "texts": texts, "raw_scores": True, "truncate": True}

    def scores(self, answer: Any) -> list[tuple[int, float]]:
        """A list of {index, score}."""
        return [(row["index"], float(row["score"])) for row in cast(list[dict[str, Any]], answer)]


class CohereApi:
    """What Cohere and Jina began; Infinity has it at /rerank unless it is given a prefix."""

    paths = ("/v1/rerank", "/rerank")

    def body(self, model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
        """All texts are asked for: some servers answer few of them by default."""
        return {
            "model": model,
            "query": query,
            "documents": texts,
            "top_n": len(texts),
            "return_documents": False,
        }

    def scores(self, answer: Any) -> list[tuple[int, float]]:
        """`results`, a list of {index, relevance_score}."""
        rows = cast(list[dict[str, Any]], answer["results"])
        return [(row["index"], float(row["relevance_score"])) for row in rows]


@dataclass(frozen=True)
class _Part:
    query: str
    texts: Sequence[str]
    deadline: float | None


class RemoteScorer:
    """A cross-encoder behind a URL."""

    reads_token_vectors = False

    def __init__(
        self, server: ModelServer, api: RerankApi, *, model: str, max_characters: int, max_waiting_candidates: int
    ) -> None:
        """`model` is the name in the request. Texts are cut to `max_characters` before they are sent, and reported."""
        self._server = server
        self._api = api
        self._path: str | None = api.paths[0] if len(api.paths) == 1 else None
        self._requested_model = model
        self.model = model or "remote"
        self._max_characters = max_characters
        self._max_waiting = max_waiting_candidates
        self._waiting = 0
        self._free = asyncio.Semaphore(_REQUESTS_AT_ONCE)

    async def score(self, query: Scored, candidates: Sequence[Scored]) -> Scores:
        """At most 32 texts a request, several at once.

        A text that the server finds too long is cut until it fits, and reported. Raises Overloaded when too many wait,
        DependencyFailed, DeadlineExceeded and BrokenModel.
        """
        if self._waiting and self._waiting + len(candidates) > self._max_waiting:
            raise Overloaded("The queue is full.", retry_after=timedelta(seconds=1))
        call = current()
        deadline = call.deadline if call is not None else None
        texts = [tokenizable(candidate.text[: self._max_characters]) for candidate in candidates]
        asked = tokenizable(query.text)
        parts = [texts[start : start + _TEXTS_PER_REQUEST] for start in range(0, len(texts), _TEXTS_PER_REQUEST)]
        tasks = [asyncio.create_task(self._bounded(_Part(asked, part, deadline))) for part in parts]
        self._waiting += len(candidates)
        try:
            scored = [one for part in await asyncio.gather(*tasks) for one in part]
        finally:
            self._waiting -= len(candidates)
            for task in tasks:
                task.cancel()
        cut = [len(candidate.text) > self._max_characters for candidate in candidates]
        return Scores(
            np.array([score for score, _ in scored], np.float32),
            [here or there for here, (_, there) in zip(cut, scored, strict=True)],
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._server.close()

    async def _bounded(self, part: _Part) -> list[tuple[float, bool]]:
        async with self._free:
            return await self._ask(part)

    async def _ask(self, part: _Part) -> list[tuple[float, bool]]:
        """(score, truncated) of each text."""
        try:
            answer = await self._post(self._api.body(self._requested_model, part.query, part.texts), part.deadline)
        except Refused as refusal:
            if not refusal.too_large:
                raise BrokenModel(f"{refusal} (model `{self.model}`)") from None
            return await self._smaller(part, refusal)
        return [(score, False) for score in self._scores(answer, len(part.texts))]

    async def _smaller(self, part: _Part, refusal: Refused) -> list[tuple[float, bool]]:
        if len(part.texts) > 1:  # which of them is too long, the server does not say; all together may be too much
            middle = len(part.texts) // 2
            halves = part.texts[:middle], part.texts[middle:]
            return [one for half in halves for one in await self._ask(_Part(part.query, half, part.deadline))]
        half = part.texts[0][: len(part.texts[0]) // 2]
        if len(half) < _SHORTEST_CHARACTERS:
            raise BrokenModel(f"{refusal} (model `{self.model}`, a text of {len(part.texts[0])} characters)") from None
        ((score, _),) = await self._ask(_Part(part.query, [half], part.deadline))
        return [(score, True)]

    async def _post(self, body: Mapping[str, Any], deadline: float | None) -> Any:
        if self._path is not None:
            return await self._server.post(self._path, body, deadline=deadline)
        for path in self._api.paths:
            try:
                answer = await self._server.post(path, body, deadline=deadline)
            except Refused as refusal:
                if refusal.status == _NOT_FOUND and path != self._api.paths[-1]:
                    continue
                raise
            self._path = path
            return answer

    def _scores(self, answer: Any, expected: int) -> list[float]:
        try:
            rows = sorted(self._api.scores(answer))
        except (ValueError, KeyError, TypeError):
            raise BrokenModel(f"the {NAME}'s answer for model `{self.model}` is of another API") from None
        if [place for place, _ in rows] != list(range(expected)):
            raise BrokenModel(f"the {NAME} answered {len(rows)} scores for {expected} texts")
        if not all(math.isfinite(score) for _, score in rows):
            raise BrokenModel(f"the {NAME} answered scores that are not finite (model `{self.model}`)")
        return [score for _, score in rows]
