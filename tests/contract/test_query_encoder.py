"""What every encoder of questions keeps to: the fake, and the embedding service over gRPC."""

from contextlib import asynccontextmanager

import numpy as np
import pytest

from services.embedding.config import Settings
from services.embedding.server import build
from services.orchestrator.clients import EmbeddingClient
from services.orchestrator.routing.encoder import HashedStems
from services.runtime.errors import ServiceError
from services.runtime.testing import SECRET, act_as, listening

PATIENCE = 60


@asynccontextmanager
async def hashed_stems():
    yield HashedStems()


@asynccontextmanager
async def served():
    act_as("acme")
    async with listening(build(Settings(identity_secret=SECRET, embedding_model="hash:64"))) as address:
        client = EmbeddingClient(address)
        try:
            yield client
        finally:
            await client.channel.close()


@pytest.mark.parametrize("encoder", [hashed_stems, served])
class TestQueryEncoder:
    async def test_each_text_gets_a_row_of_unit_length_in_its_order(self, encoder):
        texts = ["How many payments are late?", "¿Qué dice la política?", "!"]
        async with encoder() as made:
            together = await made.encode(texts, PATIENCE)
            alone = await made.encode(texts[1:2], PATIENCE)
        assert together.vectors.shape[0] == 3
        assert together.vectors.dtype == np.float32
        assert np.linalg.norm(together.vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-3)
        assert together.vectors[1] == pytest.approx(alone.vectors[0], abs=1e-5)
        assert together.model == alone.model != ""

    async def test_the_same_words_are_nearer_than_others(self, encoder):
        async with encoder() as made:
            encoded = await made.encode(
                ["late payments of providers", "providers with late payments", "soup of the day"], PATIENCE
            )
        one, same, other = encoded.vectors
        assert one @ same > one @ other


async def test_a_service_that_is_away_is_an_error_of_ours():
    act_as("acme")
    client = EmbeddingClient("127.0.0.1:1")
    with pytest.raises(ServiceError):
        await client.encode(["hello"], PATIENCE)
    await client.channel.close()
