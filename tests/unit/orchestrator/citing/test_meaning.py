import numpy as np
import pytest

from services.orchestrator.citing.meaning import Meaning
from services.orchestrator.citing.source_text import read_text
from services.orchestrator.routing.encoder import Encoded, HashedStems


def sentences(text):
    return read_text(text).sentences


async def test_the_same_is_near_and_what_has_nothing_in_common_is_not():
    meaning = Meaning(HashedStems(1024))
    [found] = await meaning.nearest(
        ["Days may be carried over."], {1: sentences("Days may be carried over. Cash."), 2: sentences("Zinc rusts.")}, 5
    )
    assert found[1].nearness == pytest.approx(1, abs=0.01)
    assert found[1].sentence.text.startswith("Days")
    assert found[2].nearness < 0.2


async def test_texts_beyond_the_bound_are_left_out_and_nothing_else_is():
    asked = []

    class Counting(HashedStems):
        async def encode(self, texts, seconds):
            asked.append(len(texts))
            return await super().encode(texts, seconds)

    meaning = Meaning(Counting(), most_texts=10)
    many = {mark: sentences("One thing. Another thing. A third.") for mark in range(1, 20)}
    found = await meaning.nearest([f"claim {at}" for at in range(8)], many, 5)
    assert asked[0] <= 10 + 6
    assert [bool(one) for one in found] == [True] * 5 + [False] * 3


async def test_nearness_is_measured_from_what_unrelated_sentences_have_in_common():
    class Squeezed(HashedStems):
        """As models are whose vectors all point the same way."""

        async def encode(self, texts, seconds):
            vectors = (await super().encode(texts, seconds)).vectors
            raised = np.hstack([vectors, np.full((len(texts), 1), 2, np.float32)])
            return Encoded("squeezed", raised / np.linalg.norm(raised, axis=1, keepdims=True))

    text = "The holiday policy lets people carry days over."
    [found] = await Meaning(Squeezed(512)).nearest(
        [text], {1: sentences("Zinc rusts in sea water."), 2: sentences(text)}, 5
    )
    assert abs(found[1].nearness) < 0.15
    assert found[2].nearness == pytest.approx(1, abs=0.01)


async def test_without_claims_or_sources_nothing_is_encoded():
    class Refusing:
        async def encode(self, texts, seconds):
            raise AssertionError

    assert await Meaning(Refusing()).nearest([], {1: sentences("One.")}, 5) == []
    assert await Meaning(Refusing()).nearest(["One."], {}, 5) == [{}]


async def test_what_a_denial_weighs_is_how_much_nearer_two_sentences_come_without_it():
    meaning = Meaning(HashedStems(1024))
    contrary, same = await meaning.denials(
        [("Guests may not swim here", "Guests may swim here"), ("No swimming", "Guests may only look")], 5
    )
    assert contrary > 0.05
    assert contrary > same


async def test_denials_beyond_the_bound_weigh_nothing():
    meaning = Meaning(HashedStems(1024), most_texts=2)
    found = await meaning.denials([("Guests may not swim", "Guests may swim")] * 3, 5)
    assert found[0] > 0
    assert found[1:] == [0, 0]
