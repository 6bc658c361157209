"""Late interaction against its formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.reranking.scorer import CannotScore, MaxSimScorer, Scored, TokenVectors


class CountingEmbedder:
    """Gives each text one row of `dimensions` ones, and remembers what it was asked."""

    def __init__(self, dimensions=4):
        self.dimensions = dimensions
        self.asked = []

    async def query(self, text):
        self.asked.append(text)
        return TokenVectors(np.ones((1, self.dimensions), np.float16))

    async def documents(self, texts):
        self.asked.append(list(texts))
        return [TokenVectors(np.ones((1, self.dimensions), np.float16), text == "long") for text in texts]


def rows(seed, count, dimensions=8):
    return np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float16)


@settings(max_examples=40, deadline=None)
@given(query=st.integers(1, 6), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8), seed=st.integers(0, 1000))
def test_a_score_is_the_mean_of_the_best_matches(query, lengths, seed):
    asked = rows(seed, query)
    passages = [rows(seed + 1 + n, length) for n, length in enumerate(lengths)]
    scores = MaxSimScorer(CountingEmbedder()).compute(Scored("", asked), [Scored("", one) for one in passages])
    for score, passage in zip(scores.values, passages, strict=True):
        best = [max(float(q.astype(np.float32) @ p.astype(np.float32)) for p in passage) for q in asked]
        assert score == pytest.approx(np.mean(best), abs=1e-4)


async def test_only_what_has_no_vectors_is_embedded():
    embedder = CountingEmbedder()
    given_rows = rows(1, 2, 4)
    candidates = [Scored("a", given_rows), Scored("b"), Scored("c", given_rows), Scored("d")]
    query, filled = await MaxSimScorer(embedder).prepare(Scored("q", given_rows), candidates)
    assert embedder.asked == [["b", "d"]]
    assert query.token_vectors is given_rows
    assert [one.text for one in filled] == ["a", "b", "c", "d"]
    assert [len(one.token_vectors) for one in filled] == [2, 1, 2, 1]


async def test_nothing_is_embedded_when_all_vectors_are_given():
    embedder = CountingEmbedder()
    await MaxSimScorer(embedder).prepare(Scored("q", rows(1, 2)), [Scored("", rows(2, 3))])
    assert embedder.asked == []


async def test_vectors_of_two_models_are_refused_by_place():
    scorer = MaxSimScorer(CountingEmbedder(dimensions=4))
    with pytest.raises(CannotScore, match="6 dimensions and the query 4") as caught:
        await scorer.prepare(Scored("q"), [Scored("a"), Scored("b", rows(1, 2, 6))])
    assert caught.value.field == "candidates[1].token_vectors"


async def test_a_text_whose_tail_was_not_embedded_is_marked():
    scorer = MaxSimScorer(CountingEmbedder())
    scores = scorer.compute(*await scorer.prepare(Scored("q"), [Scored("a"), Scored("long")]))
    assert list(scores.truncated) == [False, True]
