"""Vectors that ship with the product: taken from the encoder that made them, and from no other."""

import asyncio

import numpy as np

from services.orchestrator.routing import shipped
from services.orchestrator.routing.encoder import Encoded, HashedStems
from services.orchestrator.routing.learning import Lessons
from services.orchestrator.routing.shipped import Shipped
from services.orchestrator.routing.wording import punctuated
from services.runtime.tenants import TenantDirectory

EXAMPLES = {"sql_query": [f"How many number{n} are there?" for n in range(20)], "none": [f"Hi {n}a" for n in range(20)]}
TEXTS = [punctuated(text) for texts in EXAMPLES.values() for text in texts]


class Counting(HashedStems):
    """Counts the texts; may turn the vectors, or give itself another name."""

    def __init__(self, model="stems:256", turned=False):
        super().__init__()
        self.model, self.turned, self.count = model, turned, 0

    async def encode(self, texts, seconds):
        self.count += len(texts)
        found = await super().encode(texts, seconds)
        return Encoded(self.model, found.vectors[:, ::-1] if self.turned else found.vectors)


def known():
    encoded = asyncio.run(HashedStems().encode(TEXTS, 60))
    made = dict(zip(TEXTS, encoded.vectors, strict=True))
    return Shipped(encoded.model, {shipped.hash_of(text): vector for text, vector in made.items()})


async def learned(encoder, tmp_path, vectors):
    (tmp_path / "demo.yaml").write_text("id: demo\n", encoding="utf-8")
    lessons = Lessons(encoder, TenantDirectory(tmp_path), examples=EXAMPLES, shipped=vectors)
    found = await lessons.of("anyone", {})
    await lessons.close()
    return found


def test_with_the_encoder_that_made_them_only_a_few_are_encoded(tmp_path):
    encoder = Counting()
    found = asyncio.run(learned(encoder, tmp_path, known()))
    assert encoder.count <= 8
    assert len(found.head.bumps) == len(TEXTS)


def test_another_model_or_other_vectors_are_encoded_anew(tmp_path):
    for encoder in (Counting(model="another"), Counting(turned=True)):
        asyncio.run(learned(encoder, tmp_path, known()))
        assert encoder.count == len(TEXTS)


def test_what_is_not_known_is_encoded(tmp_path):
    some = known()
    half = Shipped(some.model, dict(list(some.vectors.items())[::2]))
    encoder = Counting()
    asyncio.run(learned(encoder, tmp_path, half))
    assert len(TEXTS) / 2 <= encoder.count < len(TEXTS)


def test_what_is_written_is_read_again(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(3, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    shipped.write(tmp_path, ["a", "b", "c"], Encoded("m", vectors))
    found = shipped.read(tmp_path / "examples.npz")
    assert found.model == "m"
    assert found.agrees(["a", "b", "c"], Encoded("m", vectors))
    assert not found.agrees(["a", "b", "c"], Encoded("m", vectors[::-1]))
