"""Order, ties and the queue of a ranking."""

import asyncio
import threading

import numpy as np
import pytest

from services.reranking.queued import QueuedScorer
from services.reranking.ranking import Ranking
from services.reranking.scorer import BrokenModel, Scored, Scores
from services.runtime.errors import Overloaded


class NumberScorer:
    """Reads the score in the text; waits in its thread while `open` is not set."""

    model = "number"
    reads_token_vectors = False

    def __init__(self):
        self.open = threading.Event()
        self.open.set()
        self.started = threading.Event()

    async def prepare(self, query, candidates):
        return query, candidates

    def compute(self, query, candidates):
        self.started.set()
        self.open.wait(10)
        values = np.array([float(candidate.text) for candidate in candidates], np.float32)
        return Scores(values, [len(candidate.text) > 3 for candidate in candidates])


def ranking_of(scorer, limit=100):
    return Ranking(QueuedScorer(scorer, max_waiting_candidates=limit))


def numbered(*numbers):
    return [Scored(str(number)) for number in numbers]


async def ranked(*numbers, top_n=0):
    ranking = ranking_of(NumberScorer())
    try:
        return [(one.index, one.score) for one in await ranking.rank(Scored("q"), numbered(*numbers), top_n)]
    finally:
        await ranking.close()


async def test_the_best_come_first():
    assert await ranked(1, 3, 2) == [(1, 3), (2, 2), (0, 1)]


async def test_negative_scores_are_ordered_and_none_is_left_out():
    assert await ranked(-11.5, -3, -20) == [(1, -3), (0, -11.5), (2, -20)]


async def test_what_was_not_scored_to_its_end_is_marked():
    ranking = ranking_of(NumberScorer())
    found = await ranking.rank(Scored("q"), numbered(1, 10000), 0)
    assert [(one.index, one.truncated) for one in found] == [(1, True), (0, False)]
    await ranking.close()


async def test_top_n_keeps_the_best():
    assert await ranked(1, 3, 2, top_n=2) == [(1, 3), (2, 2)]
    assert len(await ranked(1, 3, top_n=10)) == 2


async def test_equal_scores_keep_the_order_of_the_request():
    assert [index for index, _ in await ranked(*[1] * 50, 2, *[1] * 50)] == [50, *range(50), *range(51, 101)]


async def test_a_score_that_is_not_finite_names_the_scorer():
    with pytest.raises(BrokenModel, match="number"):
        await ranked(1, "nan")


async def test_a_full_queue_refuses_early():
    scorer = NumberScorer()
    scorer.open.clear()
    ranking = ranking_of(scorer, 5)
    running = asyncio.create_task(ranking.rank(Scored("q"), numbered(1, 2, 3), 0))
    await asyncio.to_thread(scorer.started.wait, 10)
    waiting = asyncio.create_task(ranking.rank(Scored("q"), numbered(1, 2, 3), 0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await ranking.rank(Scored("q"), numbered(1, 2, 3), 0)
    scorer.open.set()
    assert len(await running) == len(await waiting) == 3
    await ranking.close()
