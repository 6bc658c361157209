"""Scores of the candidates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.ranking import Fitness, Fusion, added, fused, standardised
from services.retrieval.store import Hit, Mode, StoredChunk

UNKNOWN = Fitness()


def hit(dense=0.0, sparse=0.0, name="d", language=""):
    return Hit(StoredChunk(name, 0, "text", "docs", language=language), dense, sparse)


def order(scores):
    return sorted(range(len(scores)), key=lambda n: -scores[n])


def hybrid(hits, fusion=Fusion.CALIBRATED, fitness=UNKNOWN):
    return fused(hits, Mode.HYBRID, fusion, fitness)


def test_a_single_leg_keeps_its_own_scores():
    hits = [hit(0.8, 3.0), hit(0.9, 1.0)]
    assert fused(hits, Mode.DENSE, Fusion.RRF, UNKNOWN) == [0.8, 0.9]
    assert fused(hits, Mode.SPARSE, Fusion.RRF, UNKNOWN) == [3.0, 1.0]


def test_without_any_word_found_the_meaning_decides():
    assert hybrid([hit(0.8), hit(0.9)]) == [0.8, 0.9]


def test_rrf_adds_reciprocal_ranks_with_k_60():
    hits = [hit(0.9, 1.0, "a"), hit(0.8, 2.0, "b"), hit(0.7, 0.0, "c")]
    assert hybrid(hits, Fusion.RRF) == pytest.approx([1 / 61 + 1 / 62, 1 / 62 + 1 / 61, 1 / 63])


def test_equal_scores_share_a_rank_whatever_their_order():
    hits = [hit(0.9, 5.0, "a"), hit(0.9, 5.0, "b"), hit(0.1, 1.0, "c")]
    first, second, _ = hybrid(hits, Fusion.RRF)
    assert first == second
    assert hybrid(hits[::-1], Fusion.RRF)[::-1] == hybrid(hits, Fusion.RRF)


def test_dbsf_places_scores_between_three_deviations():
    scores = hybrid([hit(1.0, 1.0), hit(0.0, 3.0)], Fusion.DBSF)
    assert scores == pytest.approx([1.0, 1.0])
    assert all(0 <= one <= 2 for one in scores)


@pytest.mark.parametrize("fusion", Fusion)
def test_the_best_of_both_legs_comes_first(fusion):
    hits = [hit(0.7, 1.0, "a"), hit(0.9, 9.0, "b"), hit(0.8, 2.0, "c")]
    assert order(hybrid(hits, fusion))[0] == 1


def test_scores_of_different_scale_do_not_drown_each_other():
    # BM25 first by far and without likeness in meaning, against many with a middling cosine.
    hits = [hit(0.30, 0.3, "exact"), *(hit(0.45 + n / 1000, 0.0, f"d{n}") for n in range(20))]
    assert order(hybrid(hits)).index(0) < 3


def test_words_count_less_across_languages():
    hits = [hit(0.80, 3.0, "es", "es"), hit(0.85, 0.0, "en", "en"), hit(0.75, 1.0, "x", "es")]
    assert order(hybrid(hits, fitness=Fitness("en")))[0] == 1


def test_meaning_counts_less_where_the_model_never_learned_the_language():
    hits = [hit(0.80, 9.0, "words"), hit(0.95, 4.0, "meaning"), hit(0.70, 5.0, "x")]
    assert order(hybrid(hits, fitness=Fitness("es", model_knows_it=False)))[0] == 0


def test_the_reranker_decides_among_equals():
    assert order(added([0.0, 0.0, 0.0], [0.1, 0.9, 0.5])) == [1, 2, 0]


def test_negative_logits_are_scores_as_any():
    assert order(added([0.0, 0.0, 0.0], [-9.0, -2.0, -5.0])) == [1, 2, 0]


def test_a_candidate_that_the_reranker_did_not_see_is_taken_for_average():
    assert added([1.0, 1.0, 1.0], [0.2, None, 0.6]) == pytest.approx([0.0, 1.0, 2.0])
    assert added([1.0, 2.0], [0.5, 0.5]) == [1.0, 2.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_standard_scores_keep_the_order_and_have_mean_zero(scores):
    standard = standardised(scores)
    assert sum(standard) == pytest.approx(0, abs=1e-6 * len(scores))
    for one, other, a, b in zip(scores, scores[1:], standard, standard[1:], strict=False):
        assert (one <= other) == (a <= b) or a == b
