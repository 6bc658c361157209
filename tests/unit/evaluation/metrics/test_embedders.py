import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.embedding.config import Settings
from services.embedding.server import build
from services.evaluation.metrics.catalogue import named
from services.evaluation.metrics.centred import CentredEmbedder, unrelated_questions
from services.evaluation.metrics.clients import EmbeddingClient
from services.evaluation.metrics.embedder import EmbedderFailed, ScriptedEmbedder, cosines, directions
from services.evaluation.score import Status
from services.runtime.testing import SECRET, act_as, listening
from tests.unit.evaluation.metrics.world import ANSWER, answered, judge

# All point nearly the same way, as vectors of retrieval models do.
NARROW = ScriptedEmbedder(
    {"a": [9, 1, 0, 0], "b": [9, -1, 0, 0], "c": [9, 0, 1, 0], "d": [9, 0, -1, 0], "x": [9, 1, 0, 0], "0": [0, 0, 0, 0]}
)


class Counting:
    """Counts what the embedder behind it is asked."""

    def __init__(self, embedder):
        self.embedder, self.asked = embedder, []

    async def embed(self, texts, language):
        self.asked.append((language, tuple(texts)))
        await asyncio.sleep(0)
        return await self.embedder.embed(texts, language)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_scripted_vectors_have_the_cosines_that_were_asked_for(wanted):
    texts = [f"t{n}" for n in range(len(wanted))]
    embedder = ScriptedEmbedder.by_cosine("q", dict(zip(texts, wanted, strict=True)))
    vectors = asyncio.run(embedder.embed(["q", *texts], "en"))
    assert cosines(vectors[1:], vectors[0]) == pytest.approx(np.array(wanted), abs=1e-9)


async def test_without_what_all_have_in_common_unrelated_texts_point_apart_and_equal_ones_the_same_way():
    centred = CentredEmbedder(NARROW, {"en": ["a", "b", "c", "d"]})
    before, after = await NARROW.embed(["a", "c", "x"], "en"), await centred.embed(["a", "c", "x"], "en")
    assert cosines(before[1:], before[0])[0] > 0.95
    assert cosines(after[1:], after[0]) == pytest.approx(np.array([0.0, 1.0]), abs=1e-6)


async def test_the_mean_is_learnt_once_a_language_and_of_all_questions_where_there_are_none_of_it():
    counting = Counting(NARROW)
    centred = CentredEmbedder(counting, {"en": ["a", "b"], "es": ["c", "d"]})
    await asyncio.gather(*(centred.embed(["x"], language) for language in ("en", "en", "es", "ca")))
    learnt = sorted(each for each in counting.asked if each[1] != ("x",))
    assert learnt == [("ca", ("a", "b", "c", "d")), ("en", ("a", "b")), ("es", ("c", "d"))]


async def test_a_vector_without_a_direction_is_a_failure():
    with pytest.raises(EmbedderFailed):
        await CentredEmbedder(NARROW, {"en": ["a"]}).embed(["0"], "en")
    with pytest.raises(EmbedderFailed):
        directions(np.array([[1.0, float("nan")]]))


def test_the_products_questions_are_as_many_in_both_languages_and_all_different():
    questions = unrelated_questions()
    assert set(questions) == {"en", "es"}
    assert len({len(set(each)) for each in questions.values()}) == 1
    assert len(questions["es"]) >= 20


async def test_vectors_come_from_the_embedding_service():
    act_as("acme")
    async with listening(build(Settings(identity_secret=SECRET, embedding_model="hash:16"))) as address:
        client = EmbeddingClient(address)
        async with client.channel:
            vectors = await client.embed(["uno", "dos", "uno"], "es")
            assert vectors.shape == (3, 16)
            assert np.array_equal(vectors[0], vectors[2])
            centred = await CentredEmbedder(client).embed(["uno"], "es")
            assert centred.shape == (1, 16)
            with pytest.raises(EmbedderFailed):
                await client.embed([" "], "es")


async def test_an_embedding_service_that_is_not_there_leaves_relevance_missing():
    act_as("acme")
    async with listening(build(Settings(identity_secret=SECRET, embedding_model="hash:16"))) as address:
        pass
    client = EmbeddingClient(address)
    async with client.channel:
        by = judge(questions={ANSWER: ["a?", "b?", "c?"]})
        found = await named(["answer_relevance"])[0].score(answered(), None, by, client)
    assert (found.status, found.value) == (Status.JUDGE_FAILED, None)
