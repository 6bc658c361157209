"""Asks a server with OpenAI's embeddings API, such as TEI, Infinity or vLLM, for dense vectors."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from services.embedding.batched import Vectors
from services.embedding.encoder import BrokenModel, unit_rows
from services.embedding.window import Window
from services.runtime.errors import DependencyFailed, Overloaded
from services.runtime.model_server import ModelServer, Refused

NAME = "embedding server"
# What TEI takes by default (`max_client_batch_size`).
_TEXTS_PER_REQUEST = 32
_REQUESTS_AT_ONCE = 4
_RETRY_SECONDS = 1.0
# Half of half of half: a text that is still too long then is refused for another reason.
_SHORTEST_CHARACTERS = 64


class RemoteModel:
    """A model behind `POST <url>/v1/embeddings`. Gives no token vectors: the API has none."""

    has_token_vectors = False
    texts_per_run = _TEXTS_PER_REQUEST * _REQUESTS_AT_ONCE

    def __init__(self, server: ModelServer, model: str) -> None:
        """`model` is the name in the request; an empty one is for servers that hold one model."""
        self._server = server
        self._model = model
        self._dimensions = 0
        self._free = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        self.name = model or "remote"

    async def run(self, windows: Sequence[Window], *, token_vectors: bool, deadline: float | None) -> list[Vectors]:
        """At most 32 texts a request, several at once.

        A text that the server finds too long is cut until it fits, and reported. Raises DependencyFailed, Overloaded,
        DeadlineExceeded and BrokenModel.
        """
        texts = [window.text for window in windows]
        parts = [texts[start : start + _TEXTS_PER_REQUEST] for start in range(0, len(texts), _TEXTS_PER_REQUEST)]
        tasks = [asyncio.create_task(self._bounded(part, deadline)) for part in parts]
        try:
            return [vectors for part in await asyncio.gather(*tasks) for vectors in part]
        finally:
            for task in tasks:
                task.cancel()

    async def warm_up(self) -> None:
        """Waits until the server answers: it may start after us."""
        while True:
            try:
                await self.run([Window([], [], [], "warm-up", False)], token_vectors=False, deadline=None)
                return
            except (DependencyFailed, Overloaded):
                await asyncio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        """Closes the connections."""
        await self._server.close()

    async def _bounded(self, texts: Sequence[str], deadline: float | None) -> list[Vectors]:
        async with self._free:
            return await self._embed(texts, deadline)

    async def _embed(self, texts: Sequence[str], deadline: float | None) -> list[Vectors]:
        body = {"input": texts, "model": self._model, "encoding_format": "float"}
        try:
            answer = await self._server.post("/v1/embeddings", body, deadline=deadline)
        except Refused as refusal:
            if not refusal.too_large:
                raise BrokenModel(f"{refusal} (model `{self._model}`)") from None
            return await self._smaller(texts, deadline, refusal)
        return self._vectors(answer, len(texts))

    async def _smaller(self, texts: Sequence[str], deadline: float | None, refusal: Refused) -> list[Vectors]:
        if len(texts) > 1:  # which of them is too long, the server does not say; and all together may be too much
            middle = len(texts) // 2
            return [*await self._embed(texts[:middle], deadline), *await self._embed(texts[middle:], deadline)]
        half = texts[0][: len(texts[0]) // 2]
        if len(half) < _SHORTEST_CHARACTERS:
            raise BrokenModel(f"{refusal} (model `{self._model}`, a text of {len(texts[0])} characters)") from None
        (vectors,) = await self._embed([half], deadline)
        return [replace(vectors, truncated=True)]

    def _vectors(self, answer: Any, expected: int) -> list[Vectors]:
        try:
            rows = sorted(cast(list[dict[str, Any]], answer["data"]), key=lambda row: row["index"])
            places = [row["index"] for row in rows]
            # null becomes NaN here
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (ValueError, KeyError, TypeError):
            raise BrokenModel(f"the {NAME}'s answer for model `{self._model}` is not OpenAI's") from None
        if places != list(range(expected)) or vectors.ndim != 2:
            raise BrokenModel(f"the {NAME} answered {len(rows)} vectors for {expected} texts")
        self._dimensions = self._dimensions or vectors.shape[1]
        if vectors.shape[1] != self._dimensions:
            raise BrokenModel(
                f"the {NAME} answered vectors of {vectors.shape[1]} dimensions, and {self._dimensions} before: "
                "it holds another model now"
            )
        if not np.isfinite(vectors).all():
            raise BrokenModel(f"the {NAME} answered values that are not finite (model `{self._model}`)")
        return [Vectors(row, None) for row in unit_rows(vectors)]
