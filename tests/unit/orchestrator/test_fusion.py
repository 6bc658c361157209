import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.fusion import RRF_K, fused
from services.orchestrator.results import Passage


def passage(name):
    return Passage("doc", name, "", "", 0, "", "", name)


def names(found):
    return [one.chunk_id for one in found]


def lists(*texts):
    return [[passage(name) for name in text] for text in texts]


def test_what_several_searches_agree_on_comes_first():
    assert names(fused(lists("abc", "dbe"), 3)) == ["b", "a", "d"]


def test_each_passage_comes_once():
    assert names(fused(lists("aab", "ba"), 10)) == ["a", "b"]


def test_the_first_of_every_list_comes_before_any_second():
    assert names(fused(lists("abc", "def", "ghi"), 3)) == ["a", "d", "g"]


def test_ties_go_to_the_earlier_list_a_thousand_times():
    found = lists("ab", "ba")
    assert {tuple(names(fused(found, 2))) for _ in range(1000)} == {("a", "b")}


def test_the_same_chunk_id_in_another_document_is_another_passage():
    other = Passage("other", "a", "", "", 0, "", "", "")
    assert len(fused([[passage("a")], [other]], 5)) == 2


def test_nothing_found_is_nothing():
    assert fused([], 5) == ()
    assert fused([[], []], 5) == ()


@settings(deadline=None)
@given(st.lists(st.text("abcdefgh", max_size=12), max_size=5), st.integers(1, 10))
def test_scores_are_those_of_the_formula(texts, top_k):
    first_seen = [list(dict.fromkeys(text)) for text in texts]
    scores = {
        name: sum(1 / (RRF_K + text.index(name) + 1) for text in first_seen if name in text)
        for name in {name for text in first_seen for name in text}
    }
    found = names(fused(lists(*texts), top_k))
    assert len(found) == len(set(found)) == min(top_k, len(scores))
    assert [scores[name] for name in found] == pytest.approx(sorted(scores.values(), reverse=True)[:top_k])


@settings(deadline=None)
@given(st.randoms())
def test_the_order_of_equal_lists_does_not_matter_for_what_is_found(shuffled: random.Random):
    texts = ["abcd", "cdef", "efab"]
    before = set(names(fused(lists(*texts), 10)))
    shuffled.shuffle(texts)
    assert set(names(fused(lists(*texts), 10))) == before
