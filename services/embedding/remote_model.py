"""Asks a server with OpenAI's embeddings API, such as TEI, Infinity or vLLM, for dense vectors."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx2
import numpy as np

from services.embedding.batched import Vectors
from services.embedding.encoder import BrokenModel, unit_rows
from services.embedding.window import Window
from services.runtime.errors import DependencyFailed, Overloaded

_NAME = "the embedding server"
_RETRY_SECONDS = 1.0


class RemoteModel:
    """A model behind `POST <url>/v1/embeddings`. Gives no token vectors: the API has none."""

    has_token_vectors = False

    def __init__(self, url: str, model: str, api_key: str, timeout_seconds: float) -> None:
        """`model` is the name in the request; an empty one is for servers that hold one model."""
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx2.AsyncClient(headers=headers, timeout=timeout_seconds)
        self._url = f"{url.rstrip('/').removesuffix('/v1')}/v1/embeddings"
        self._model = model
        self.name = model or "remote"

    async def run(self, windows: Sequence[Window], *, token_vectors: bool) -> list[Vectors]:
        """One request for all windows. Raises DependencyFailed, Overloaded and BrokenModel."""
        body = {"input": [window.text for window in windows], "model": self._model, "encoding_format": "float"}
        try:
            response = await self._http.post(self._url, json=body)
        except httpx2.TransportError:
            raise DependencyFailed(f"{_NAME} does not answer.", dependency="embedding server") from None
        if response.status_code in (429, 503):
            raise Overloaded(f"{_NAME} is busy.", retry_after=timedelta(seconds=1))
        if response.status_code >= 500:
            raise DependencyFailed(f"{_NAME} failed.", dependency="embedding server")
        if response.status_code != 200:
            # Not the body: servers repeat the text there.
            raise BrokenModel(f"the embedding server refused model `{self._model}` with HTTP {response.status_code}")
        return [Vectors(unit_rows(np.array(one, np.float32)), None) for one in self._vectors(response, len(windows))]

    async def warm_up(self) -> None:
        """Waits until the server answers: it may start after us."""
        while True:
            try:
                await self.run([Window([], [], [], "warm-up", False)], token_vectors=False)
                return
            except (DependencyFailed, Overloaded):
                await asyncio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    def _vectors(self, response: httpx2.Response, expected: int) -> list[list[float]]:
        try:
            rows: list[dict[str, Any]] = sorted(response.json()["data"], key=lambda row: row["index"])
            vectors: list[list[float]] = [row["embedding"] for row in rows]
        except (ValueError, KeyError, TypeError):
            raise BrokenModel(f"the embedding server's answer for model `{self._model}` is not OpenAI's") from None
        if len(vectors) != expected or len({len(vector) for vector in vectors}) != 1:
            raise BrokenModel(f"the embedding server answered {len(vectors)} vectors for {expected} texts")
        return vectors
