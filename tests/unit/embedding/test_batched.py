"""The queue before a model: order, limits, and what a broken model does."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from services.embedding.batched import BatchedEncoder, QueueLimits, Vectors
from services.embedding.encoder import BrokenModel, Kind
from services.embedding.window import Windower
from services.runtime import context
from services.runtime.errors import Overloaded


class RecordingModel:
    """Answers the number of tokens as vector, remembers its batches, and waits while `open` is not set."""

    name = "recording"
    has_token_vectors = True

    def __init__(self, broken_at=None):
        self.batches = []
        self.deadlines = []
        self.broken_at = broken_at
        self.open = asyncio.Event()
        self.open.set()

    async def run(self, windows, *, token_vectors, deadline):
        self.deadlines.append(deadline)
        self.batches.append([window.text for window in windows])
        await self.open.wait()
        rows = [np.array([len(one.ids), np.nan if one.text == self.broken_at else 1], np.float32) for one in windows]
        return [Vectors(row, np.ones((len(one.ids), 2), np.float16)) for row, one in zip(rows, windows, strict=True)]

    async def warm_up(self):
        pass

    async def close(self):
        pass


def encoder(model, items=2, tokens=100, waiting=1000, parallel=1):
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    windower = Windower(tokenizer, dict.fromkeys(Kind, ""), 64)
    return BatchedEncoder(model, windower, QueueLimits(items, tokens, waiting, parallel))


async def test_answers_come_in_the_order_of_the_texts_though_like_lengths_run_together():
    model = RecordingModel()
    tested = encoder(model)
    embedded = await tested.embed(["a b c d", "a", "a b c", "a b"], Kind.DOCUMENT, token_vectors=False)
    assert [int(one.dense[0]) for one in embedded] == [4, 1, 3, 2]
    assert model.batches == [["a", "a b"], ["a b c", "a b c d"]]
    assert all(one.token_vectors is None for one in embedded)
    await tested.close()


async def test_a_batch_stays_within_its_tokens():
    model = RecordingModel()
    tested = encoder(model, items=10, tokens=4)
    await tested.embed(["a b", "a b", "a b"], Kind.DOCUMENT, token_vectors=True)
    assert [len(batch) for batch in model.batches] == [2, 1]
    await tested.close()


async def test_a_search_does_not_wait_behind_the_documents():
    model = RecordingModel()
    tested = encoder(model, items=1)
    model.open.clear()
    documents = asyncio.create_task(tested.embed(["d"] * 50, Kind.DOCUMENT, token_vectors=False))
    while not model.batches:
        await asyncio.sleep(0)
    search = asyncio.create_task(tested.embed(["q"], Kind.QUERY, token_vectors=False))
    while ["q"] not in model.batches:
        await asyncio.sleep(0.001)
    assert len(model.batches) == 2
    model.open.set()
    await asyncio.gather(search, documents)
    await tested.close()


async def test_a_full_queue_refuses_documents_and_still_takes_searches():
    model = RecordingModel()
    tested = encoder(model, items=1, waiting=10)
    model.open.clear()
    waiting = asyncio.create_task(tested.embed(["a b c"] * 4, Kind.DOCUMENT, token_vectors=False))
    while not model.batches:
        await asyncio.sleep(0.001)
    with pytest.raises(Overloaded):
        await tested.embed(["a b c"], Kind.DOCUMENT, token_vectors=False)
    search = asyncio.create_task(tested.embed(["q"], Kind.QUERY, token_vectors=False))
    model.open.set()
    assert len(await search) == 1
    assert len(await waiting) == 4
    await tested.close()


async def test_texts_of_a_caller_who_has_gone_are_not_run():
    model = RecordingModel()
    tested = encoder(model, items=1)
    model.open.clear()
    leaving = asyncio.create_task(tested.embed(["a", "a b", "a b c"], Kind.DOCUMENT, token_vectors=False))
    while not model.batches:
        await asyncio.sleep(0.001)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    model.open.set()
    await tested.embed(["z z z z z"], Kind.DOCUMENT, token_vectors=False)
    assert model.batches == [["a"], ["z z z z z"]]
    await tested.close()


async def test_a_value_that_is_not_finite_fails_the_call_and_names_the_model():
    tested = encoder(RecordingModel(broken_at="bait"))
    with pytest.raises(BrokenModel, match="recording"):
        await tested.embed(["fine", "bait"], Kind.DOCUMENT, token_vectors=False)
    assert len(await tested.embed(["fine"], Kind.DOCUMENT, token_vectors=False)) == 1
    await tested.close()


async def test_as_many_runs_go_on_at_a_time_as_are_allowed():
    model = RecordingModel()
    tested = encoder(model, items=1, parallel=3)
    model.open.clear()
    documents = asyncio.create_task(tested.embed(["d"] * 10, Kind.DOCUMENT, token_vectors=False))
    await asyncio.sleep(0.05)
    assert len(model.batches) == 3
    model.open.set()
    assert len(await documents) == 10
    await tested.close()


async def test_a_run_ends_with_the_patience_of_its_last_caller():
    model = RecordingModel()
    tested = encoder(model, items=4)

    async def embed(deadline):
        identity = context.Identity("acme")
        context.enter(context.CallContext(identity, "", deadline))
        await tested.embed(["a"], Kind.DOCUMENT, token_vectors=False)

    await asyncio.create_task(embed(5.0))
    await asyncio.gather(embed(7.0), embed(9.0))
    await asyncio.gather(embed(7.0), embed(None))
    # Two that come together may still meet two runs; a run is never cut short by the one who waits less.
    assert model.deadlines[0] == 5
    assert max(model.deadlines[1:-1]) == 9
    assert model.deadlines[-1] is None
    await tested.close()


async def test_what_a_model_has_cut_is_reported_as_truncated():
    class CuttingModel(RecordingModel):
        async def run(self, windows, **how):
            return [replace(one, truncated=True) for one in await super().run(windows, **how)]

    tested = encoder(CuttingModel())
    (embedded,) = await tested.embed(["a"], Kind.DOCUMENT, token_vectors=True)
    assert embedded.truncated
    await tested.close()


async def test_dimensions_are_known_after_the_warm_up():
    tested = encoder(RecordingModel())
    assert tested.dimensions == 0
    await tested.warm_up()
    assert tested.dimensions == 2
    await tested.close()
