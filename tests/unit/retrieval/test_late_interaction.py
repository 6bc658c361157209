"""Late interaction over packed token vectors, against plain arithmetic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.retrieval.late_interaction import averaged, late_scores, token_similarities
from services.retrieval.store import TokenMatrix
from services.retrieval.token_codec import Format, pack, unit_rows, unpack


def matrix(rng, count, dimensions):
    return TokenMatrix(dimensions, rng.standard_normal((count, dimensions)).astype("<f2").tobytes())


def expected(query, passages):
    best = np.array([(unit_rows(query) @ unit_rows(one).T).max(axis=1) for one in passages])
    return iter(np.average(best, axis=1, weights=best.std(axis=0) if len(best) > 1 else None))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 12), st.sampled_from(Format), st.integers(0, 99))
def test_scores_are_those_of_full_vectors_within_the_error_of_the_format(counts, asked, format, seed):
    rng = np.random.default_rng(seed)
    query = matrix(rng, asked, 384)
    passages = [matrix(rng, count, 384) for count in counts]
    scores = late_scores(query, [pack(passage, format) for passage in passages])
    wanted = expected(query, [one for one, count in zip(passages, counts, strict=True) if count]) if any(counts) else ()
    for score, count in zip(scores, counts, strict=True):
        if count:
            assert score == pytest.approx(next(wanted), abs=0.02)
        else:
            assert score is None


def test_a_passage_that_is_the_query_scores_one():
    query = matrix(np.random.default_rng(0), 5, 64)
    assert late_scores(query, [pack(query)]) == [pytest.approx(1, abs=0.01)]


def test_a_token_counts_as_much_as_it_tells_the_passages_apart():
    best = np.array([[0.9, 0.5], [0.9, 0.7]], np.float32)
    assert averaged(best) == pytest.approx([0.5, 0.7])
    assert averaged(best[:1]) == pytest.approx([0.7])
    assert averaged(np.full((3, 4), 0.8, np.float32)) == pytest.approx([0.8] * 3)


def test_passages_without_vectors_keep_their_places():
    rng = np.random.default_rng(0)
    query, passage = matrix(rng, 3, 16), matrix(rng, 4, 16)
    scores = late_scores(query, [None, pack(passage), b"", pack(matrix(rng, 4, 8)), pack(passage)])
    assert [score is None for score in scores] == [True, False, True, True, False]
    assert scores[1] == scores[4]


def test_a_query_without_tokens_scores_nothing():
    passage = pack(matrix(np.random.default_rng(0), 4, 16))
    assert late_scores(TokenMatrix(16, b""), [passage, None]) == [None, None]
    assert late_scores(TokenMatrix(16, b""), []) == []


@pytest.mark.parametrize("count", [1, 33, 34, 35, 1000])
def test_a_stack_of_small_products_is_the_large_one(count):
    rng = np.random.default_rng(0)
    tokens, rows = unit_rows(matrix(rng, 20, 384)), unpack([pack(matrix(rng, count, 384))])
    whole = (rows.values * rows.scales[:, None]) @ tokens.T
    assert np.abs(token_similarities(tokens, rows) - whole).max() < 1e-5
