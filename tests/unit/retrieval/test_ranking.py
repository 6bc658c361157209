"""The final order of candidates."""

import pytest

from services.retrieval.ranking import combined
from services.retrieval.store import Hit, StoredChunk


def hit(dense=0.0, sparse=0.0):
    return Hit(StoredChunk("d", 0, "text", "docs"), dense, sparse)


def order(scores):
    return sorted(range(len(scores)), key=lambda n: -scores[n])


def test_the_reranker_decides_among_equals():
    assert order(combined([hit(0.8, 2.0)] * 3, [0.1, 0.9, 0.5])) == [1, 2, 0]


def test_an_exact_word_outweighs_a_small_advantage_of_the_reranker():
    hits = [hit(0.80, 1.0), hit(0.80, 12.0), hit(0.80, 1.0), hit(0.79, 1.0)]
    assert order(combined(hits, [0.52, 0.51, 0.50, 0.50]))[0] == 1


def test_a_candidate_that_the_dense_leg_did_not_find_counts_as_its_worst():
    scores = combined([hit(0.0, 3.0), hit(0.8, 3.0), hit(0.9, 3.0)], [0.5, 0.5, 0.5])
    assert scores[0] == scores[1] < scores[2]


def test_the_only_candidate_with_the_words_gains_by_them():
    assert order(combined([hit(0.8), hit(0.8, 2.0), hit(0.8)], [0.5, 0.5, 0.5]))[0] == 1


def test_legs_that_took_no_part_change_nothing():
    assert combined([hit(), hit()], [1.0, 3.0]) == pytest.approx([-1.0, 1.0])


def test_without_a_reranker_the_legs_decide():
    assert order(combined([hit(0.8, 1.0), hit(0.9, 3.0), hit(0.9, 1.0)])) == [1, 2, 0]
    assert combined([]) == []


def test_one_candidate_alone_has_a_score():
    assert combined([hit(0.9, 3.0)], [0.4]) == [0.0]
