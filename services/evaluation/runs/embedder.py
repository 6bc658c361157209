"""Vectors of questions by the gateway's embeddings endpoint, so that a run needs one address only."""

from collections.abc import Sequence

import httpx2
import numpy as np
import openai

from services.evaluation.metrics.embedder import EmbedderFailed, Vectors
from services.evaluation.runs.gateway_asker import Stack


class GatewayEmbedder:
    """An Embedder over `/v1/embeddings`; `model` as the gateway lists it."""

    def __init__(self, stack: Stack, model: str) -> None:
        self._model = model
        self._client = openai.AsyncOpenAI(
            base_url=f"{stack.url.rstrip('/')}/v1",
            api_key=stack.api_key,
            max_retries=6,
            http_client=httpx2.AsyncClient(trust_env=False),
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def embed(self, texts: Sequence[str], language: str) -> Vectors:
        """See Embedder."""
        try:
            answer = await self._client.embeddings.create(model=self._model, input=list(texts), encoding_format="float")
        except openai.OpenAIError as error:
            raise EmbedderFailed(f"the gateway did not embed ({type(error).__name__})") from None
        return np.array([one.embedding for one in answer.data], dtype=np.float64)
