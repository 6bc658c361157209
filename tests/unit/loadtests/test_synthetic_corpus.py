import numpy as np

from loadtests.synthetic_corpus import Corpus, corpus


def test_a_corpus_is_the_same_at_every_call_and_holds_what_it_gives_out():
    one, other = corpus(300), corpus(300)
    assert np.array_equal(one.dense, other.dense)
    assert np.array_equal(one.terms, other.terms)
    assert np.allclose((one.dense**2).sum(axis=1), 1, atol=1e-5)
    again = Corpus.of(one.chunks(0, 300))
    assert np.array_equal(again.terms, one.terms)
    assert np.array_equal(again.offsets, one.offsets)
    assert np.allclose(again.dense, one.dense, atol=1e-6)


def test_a_chunk_has_each_of_its_words_once():
    found = corpus(50)
    for at in range(50):
        indices = found.sparse(at).indices
        assert len(indices) == len(set(indices)) > 0


def test_a_query_resembles_one_chunk_and_has_words_of_it():
    found = corpus(400)
    for query in found.queries(20):
        nearest = int(np.argmax(found.dense @ np.array(query.dense, np.float32)))
        assert set(query.sparse.indices) <= set(found.sparse(nearest).indices)
        assert len(query.sparse.indices) == 6
