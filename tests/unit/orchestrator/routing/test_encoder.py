"""Vectors that are remembered: the same as those of the encoder behind, which is asked for each text once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.routing.encoder import Encoded, HashedStems, RememberedVectors
from services.runtime.errors import DependencyFailed


class Counting(HashedStems):
    """Notes the texts; can be another model, or fail."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.model, self.fails = "one", False

    async def encode(self, texts, seconds):
        if self.fails:
            raise DependencyFailed("embedding does not answer.", dependency="embedding")
        self.asked.append(list(texts))
        sign = 1 if self.model == "one" else -1
        return Encoded(self.model, sign * (await super().encode(texts, seconds)).vectors)


async def test_a_text_is_encoded_once_however_often_it_is_asked_for():
    encoder = Counting()
    remembered = RememberedVectors(encoder)
    for _ in range(3):
        await remembered.encode(["one thing", "another", "one thing"], 5)
    await remembered.encode(["another", "a third"], 5)
    assert encoder.asked == [["one thing", "another"], ["a third"]]


@given(st.lists(st.lists(st.sampled_from(["a b", "c", "d e f", "g", "h i"]), min_size=1, max_size=6), max_size=12))
async def test_vectors_are_those_of_the_encoder_in_the_order_asked_for_whatever_was_forgotten(batches):
    remembered, plain = RememberedVectors(HashedStems(), most=3), HashedStems()
    for texts in batches:
        found, expected = await remembered.encode(texts, 5), await plain.encode(texts, 5)
        assert found.model == expected.model
        np.testing.assert_array_equal(found.vectors, expected.vectors)


async def test_vectors_of_two_models_are_never_mixed():
    encoder = Counting()
    remembered = RememberedVectors(encoder)
    before = await remembered.encode(["one", "two"], 5)
    encoder.model = "other"
    after = await remembered.encode(["one", "three"], 5)
    assert (before.model, after.model) == ("one", "other")
    np.testing.assert_array_equal(after.vectors[0], -before.vectors[0])
    assert (await remembered.encode(["two"], 5)).model == "other"


async def test_what_is_known_needs_no_encoder_and_what_is_not_fails_as_it_does():
    encoder = Counting()
    remembered = RememberedVectors(encoder)
    await remembered.encode(["one"], 5)
    encoder.fails = True
    assert len((await remembered.encode(["one"], 5)).vectors) == 1
    with pytest.raises(DependencyFailed):
        await remembered.encode(["one", "two"], 5)
