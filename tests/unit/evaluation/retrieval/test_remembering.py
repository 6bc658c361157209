"""The embedding service that remembers, between a client and real servers that count what they are asked."""

from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.embedding.config import Settings
from services.embedding.server import build
from services.evaluation.retrieval.service import RememberingEmbedding
from services.evaluation.retrieval.vector_cache import VectorCache
from services.runtime.server import Served
from services.runtime.testing import SECRET, act_as, running

MODEL = "hash-16"


@asynccontextmanager
async def remembering(tmp_path):
    """A stub of it; the words come from a server with another model."""
    act_as("acme")
    real = build(Settings(identity_secret=SECRET, embedding_model="hash:16"))
    words = build(Settings(identity_secret=SECRET, embedding_model="hash:4"))
    async with running(real) as to_real, running(words) as to_words:
        cache = VectorCache(tmp_path / "cache", MODEL)
        servicer = RememberingEmbedding(to_real, to_words, cache, MODEL)
        served = Served(servicer, rpc.add_EmbeddingServiceServicer_to_server, real.descriptor)
        async with running(served) as channel:
            yield rpc.EmbeddingServiceStub(channel), servicer, rpc.EmbeddingServiceStub(to_real)
        cache.close()


def request(*texts, **others):
    return pb.EmbedRequest(**{"texts": texts, "input_type": pb.INPUT_TYPE_QUERY, "with_sparse": True} | others)


@pytest.mark.parametrize("tokens", [False, True])
async def test_answers_are_those_of_the_real_service_the_first_time_and_the_second(tmp_path, tokens):
    async with remembering(tmp_path) as (stub, servicer, real):
        asked = request("cláusula 8.3", "ERR-4032", language="es", with_token_vectors=tokens)
        expected = await real.Embed(asked)
        for found in (0, 2):
            answer = await stub.Embed(asked)
            assert list(answer.embeddings) == list(expected.embeddings)
            assert servicer.found_count == found
        assert answer.model == MODEL


async def test_only_what_is_not_known_is_asked_for_and_the_order_stays(tmp_path):
    async with remembering(tmp_path) as (stub, servicer, real):
        await stub.Embed(request("b"))
        answer = await stub.Embed(request("a", "b", "c"))
        assert list(answer.embeddings) == list((await real.Embed(request("a", "b", "c"))).embeddings)
        assert (servicer.asked_count, servicer.found_count) == (4, 1)


async def test_a_passage_is_not_taken_for_a_query_of_the_same_words(tmp_path):
    async with remembering(tmp_path) as (stub, servicer, _):
        await stub.Embed(request("lift"))
        await stub.Embed(request("lift", input_type=pb.INPUT_TYPE_DOCUMENT))
        assert servicer.found_count == 0


async def test_words_are_stemmed_in_the_language_asked_for_though_the_vector_is_known(tmp_path):
    async with remembering(tmp_path) as (stub, _, real):
        await stub.Embed(request("contratos", language="es"))
        answer = await stub.Embed(request("contratos", language="en"))
        assert (
            answer.embeddings[0].sparse == (await real.Embed(request("contratos", language="en"))).embeddings[0].sparse
        )


async def test_errors_of_the_real_service_pass_through(tmp_path):
    async with remembering(tmp_path) as (stub, _, _):
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.Embed(request(" "))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
