"""Fewer passages that say the same."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.store import Hit, StoredChunk
from services.retrieval.variety import diverse, first_of_each_parent, limited


@dataclass(frozen=True)
class Found:
    hit: Hit
    score: float


def found(score, vector=(), document="d", position=0, parent=""):
    return Found(Hit(StoredChunk(document, position, "t", "c", parent_text=parent), vector=vector), score)


def test_no_diversity_keeps_the_order():
    ranked = [found(3.0, (1, 0)), found(2.0, (1, 0.01)), found(1.0, (0, 1))]
    assert [one.score for one in diverse(ranked, 0.0, 2)] == [3.0, 2.0]


def test_diversity_prefers_what_is_unlike():
    ranked = [found(3.0, (1, 0)), found(2.9, (1, 0.01)), found(2.0, (0, 1))]
    assert [one.score for one in diverse(ranked, 0.6, 2)] == [3.0, 2.0]


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-1, 1), st.floats(-1, 1)), max_size=20), st.floats(0, 1))
def test_diversity_loses_and_doubles_nothing(rows, diversity):
    ranked = [found(score, (a, b), position=n) for n, (score, a, b) in enumerate(rows)]
    chosen = diverse(ranked, diversity, 100)
    assert sorted(one.hit.chunk.position for one in chosen) == list(range(len(ranked)))


def test_passages_without_a_vector_are_like_nothing():
    ranked = [found(3.0, (1, 0)), found(2.0), found(1.0, (1, 0))]
    assert [one.score for one in diverse(ranked, 0.5, 3)] == [3.0, 2.0, 1.0]


def test_a_document_is_limited():
    ranked = [found(4.0, document="a"), found(3.0, document="a"), found(2.0, document="b")]
    assert [one.score for one in limited(ranked, 1)] == [4.0, 2.0]
    assert limited(ranked, 0) == ranked


def test_a_parent_is_read_once():
    ranked = [found(3.0, parent="P"), found(2.0, parent="P"), found(1.0, parent="Q"), found(0.5), found(0.4)]
    assert [one.score for one in first_of_each_parent(ranked)] == [3.0, 1.0, 0.5, 0.4]


def test_equal_parents_of_two_documents_are_two():
    ranked = [found(3.0, document="a", parent="P"), found(2.0, document="b", parent="P")]
    assert first_of_each_parent(ranked) == ranked
