"""Which generations count in a search that meets several."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.retrieval.freshness import Freshness


def test_what_is_current_is_accepted():
    assert Freshness().accepts([("d", "g1")], {"d": "g1"})


def test_a_stale_generation_is_left_out_of_the_next_round():
    freshness = Freshness()
    assert not freshness.accepts([("d", "g1"), ("d", "g2")], {"d": "g1"})
    assert freshness.excluded == ["g2"]
    assert freshness.documents([("e", "g3")]) == {"d", "e"}
    assert freshness.accepts([("d", "g1")], {"d": "g1"})


def test_a_deleted_document_is_left_out():
    freshness = Freshness()
    assert not freshness.accepts([("d", "g1")], {})
    assert freshness.accepts([], {})


def test_a_generation_that_became_current_meanwhile_is_taken_in_again():
    freshness = Freshness()
    assert not freshness.accepts([("d", "g1"), ("d", "g2")], {"d": "g1"})
    assert not freshness.accepts([], {"d": "g2"})
    assert freshness.excluded == []
    assert freshness.accepts([("d", "g2")], {"d": "g2"})


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123")), max_size=12))
def test_after_one_round_on_a_quiet_store_the_next_is_accepted(found):
    current = {"a": "1", "b": "2"}
    pairs = [(document, document + generation) for document, generation in found]
    current = {document: document + generation for document, generation in current.items()}
    freshness = Freshness()
    if not freshness.accepts(pairs, current):
        left = [one for one in pairs if one[1] not in freshness.excluded]
        assert freshness.accepts(left, current)
