import numpy as np
import pytest

from loadtests.exact_search import ExactSearch, recall
from loadtests.synthetic_corpus import Corpus
from services.retrieval.store import NewChunk, SparseTerms


def chunk(dense, terms):
    return NewChunk("text", dense, SparseTerms(list(terms), list(terms.values())))


@pytest.fixture
def search():
    padding = [chunk([-1.0, 0.0], {99: 1.0})] * 60
    chunks = [chunk([1.0, 0.0], {1: 1.0}), chunk([0.0, 2.0], {2: 1.0, 1: 0.1}), *padding]
    return ExactSearch(Corpus.of(chunks))


def test_meaning_is_compared_whatever_the_length(search):
    assert search.dense_scores([0.0, 5.0])[:2].tolist() == pytest.approx([0.0, 1.0])


def test_rare_words_count_more(search):
    scores = search.sparse_scores(SparseTerms([2, 99], [1.0, 1.0]))
    assert scores[1] > scores[2] > scores[0] == 0


def test_both_legs_count(search):
    assert set(search.best([1.0, 0.1], SparseTerms([2], [1.0]), 2)) == {0, 1}
    assert search.best([0.1, 1.0], SparseTerms([2], [1.0]), 1) == [1]


def test_recall_takes_equal_scores_for_each_other():
    scores = np.array([0.9, 0.5, 0.5, 0.1], dtype=np.float32)
    assert recall([0, 1], scores) == recall([0, 2], scores) == 1.0
    assert recall([0, 3], scores) == 0.5
