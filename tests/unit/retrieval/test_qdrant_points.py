"""Batches of points: below 5 MB a request, nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.qdrant.points import by_bytes
from services.retrieval.store import NewChunk, SparseTerms, TokenMatrix


def chunk(tokens, text_bytes=10):
    matrix = TokenMatrix(384, bytes(2 * 384 * tokens)) if tokens else None
    return NewChunk("x" * text_bytes, [0.0] * 384, SparseTerms([1], [1.0]), matrix)


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 50_000)), max_size=64))
def test_batches_keep_all_chunks_in_order_and_stay_small(sizes):
    chunks = [chunk(tokens, text) for tokens, text in sizes]
    groups = list(by_bytes(chunks))
    assert [one for group in groups for one in group] == chunks
    for group in groups:
        size = sum(4 * 384 * len(one.tokens.values) // 768 if one.tokens else 0 for one in group)
        size += sum(len(one.text) for one in group)
        assert group
        assert size < 5_000_000


def test_a_chunk_above_the_limit_goes_alone():
    chunks = [chunk(1), chunk(0, 6_000_000), chunk(1)]
    assert [len(group) for group in by_bytes(chunks)] == [1, 1, 1]


def test_small_chunks_go_together():
    assert [len(group) for group in by_bytes([chunk(2)] * 64)] == [64]
