"""The semantic layer: what is found, what never is, and that nothing that fails reaches the caller."""

import asyncio
import math
from datetime import UTC, datetime

import pytest
from prometheus_client import REGISTRY

from services.runtime.errors import DependencyFailed
from services.runtime.settings import WrongSetting
from services.tool_cache.semantic.index import MemoryIndex
from services.tool_cache.semantic.layer import Question, SemanticLayer, TextVector

ASKED = "How many contracts did we sign in 2024?"
AGAIN = "What is the number of contracts signed in 2024?"
HOUR_MS = 3_600_000


class Vectors:
    """An embedder that gives the vectors it was told, and one far from them for anything else."""

    def __init__(self, told=(), *, other=(0.0, 0.0, 1.0), truncated=()):
        self.told, self.other, self.truncated, self.asked = dict(told), other, truncated, []

    async def embed(self, texts):
        self.asked += texts
        return [TextVector(self.told.get(text, self.other), text in self.truncated) for text in texts]

    async def close(self):
        pass


class Lost:
    """An embedder, an index and a verifier that fail, each in its own way."""

    async def embed(self, texts):
        raise DependencyFailed("embedding does not answer.", dependency="embedding")

    async def texts(self, buckets):
        raise DependencyFailed("Valkey does not answer.", dependency="valkey")

    async def add(self, entries):
        raise DependencyFailed("Valkey does not answer.", dependency="valkey")

    async def same(self, one, other):
        raise ValueError("no JSON")

    async def close(self):
        pass


class Slow(Lost):
    async def embed(self, texts):
        await asyncio.sleep(30)


class Says:
    def __init__(self, answer):
        self.answer = answer

    async def same(self, one, other):
        return self.answer

    async def close(self):
        pass


NEAR = {ASKED: (1.0, 0.0, 0.0), AGAIN: (0.95, math.sqrt(1 - 0.95**2), 0.0)}


class Clock:
    def __init__(self, *when):
        self.when = when or (2025, 11, 30, 12)

    def __call__(self, zone):
        return datetime(*self.when, tzinfo=UTC).astimezone(zone)


def layer(embedder=None, *, index=None, verifier=None, **others):
    made = SemanticLayer(index or MemoryIndex(), embedder or Vectors(NEAR), verifier, now=Clock(), **others)
    return made


async def add(semantic, text, tenant="acme", scope="s", ttl_ms=HOUR_MS):
    semantic.add_later([(Question(tenant, scope, text), ttl_ms)])
    await semantic.drain()


async def find(semantic, text, least=0.9, tenant="acme", scope="s"):
    return (await semantic.find([(Question(tenant, scope, text), least)]))[0]


def counted(outcome):
    return REGISTRY.get_sample_value("sabueso_tool_cache_semantic_lookups_total", {"outcome": outcome}) or 0


async def test_a_question_in_other_words_is_found_with_its_similarity():
    semantic = layer()
    await add(semantic, ASKED)
    [match] = await find(semantic, AGAIN)
    assert match.text == ASKED
    assert match.similarity == pytest.approx(0.95)


async def test_nothing_is_embedded_where_there_is_no_candidate():
    embedder = Vectors(NEAR)
    semantic = layer(embedder)
    await add(semantic, ASKED)
    assert await find(semantic, "How many contracts did we sign in 2023?") == []
    assert embedder.asked == []


@pytest.mark.parametrize("other", [{"tenant": "other"}, {"scope": "t"}])
async def test_another_tenant_or_scope_finds_nothing(other):
    semantic = layer()
    await add(semantic, ASKED)
    assert await find(semantic, AGAIN, **other) == []


@pytest.mark.parametrize("least", [0, -1.0])
async def test_without_a_least_similarity_nothing_is_like_anything(least):
    semantic = layer()
    await add(semantic, ASKED)
    assert await find(semantic, AGAIN, least) == []


@pytest.mark.parametrize(("least", "found"), [(0.94, 1), (0.96, 0), (1.0, 0)])
async def test_less_similar_texts_do_not_serve(least, found):
    semantic = layer()
    await add(semantic, ASKED)
    assert len(await find(semantic, AGAIN, least)) == found


@pytest.mark.parametrize(
    "embedder",
    [
        Vectors(other=(1.0, 0.0, 0.0)),
        Vectors(other=(0.0, 0.0, 0.0)),
        Vectors(other=(math.nan, 1.0, 0.0)),
        Vectors(other=(math.inf, 1.0, 0.0)),
        Vectors(other=()),
        Vectors({ASKED: (1.0, 0.0)}, other=(1.0, 0.0, 0.0)),
        Vectors({ASKED: (1.0, 0.001, 0.0)}, other=(1.0, 0.0, 0.0)),
        Vectors(NEAR, truncated=(AGAIN,)),
        Vectors(NEAR, truncated=(ASKED,)),
    ],
    ids=[
        "the same for all",
        "zero",
        "not a number",
        "infinite",
        "empty",
        "lengths",
        "nearly the same",
        "cut",
        "cut too",
    ],
)
async def test_vectors_that_tell_nothing_apart_are_never_a_hit(embedder):
    semantic, before = layer(embedder), counted("degenerate")
    await add(semantic, ASKED)
    assert await find(semantic, AGAIN, 0.1) == []
    assert counted("degenerate") == before + 1


@pytest.mark.parametrize("text", ["", "  ", "¿?", "x" * 5000])
async def test_a_text_that_says_nothing_or_too_much_is_never_found(text):
    semantic = layer(Vectors(other=(1.0, 0.0, 0.0)))
    await add(semantic, text)
    assert await find(semantic, text + " ", 0.1) == []


async def test_the_same_text_is_left_to_the_exact_layer():
    semantic = layer()
    await add(semantic, ASKED)
    assert await find(semantic, ASKED) == []


@pytest.mark.parametrize(("answer", "found"), [(Says(True), 1), (Says(False), 0), (Lost(), 0)])
async def test_a_second_check_may_only_take_away(answer, found):
    semantic, before = layer(verifier=answer), counted("unverified")
    await add(semantic, ASKED)
    assert len(await find(semantic, AGAIN)) == found
    assert counted("unverified") == before + (not found)


@pytest.mark.parametrize("parts", [{"embedder": Lost()}, {"index": Lost()}])
async def test_a_lost_part_is_a_miss_and_counted(parts):
    index = MemoryIndex()
    await add(layer(index=index), ASKED)
    semantic, before = layer(**({"index": index} | parts)), counted("failed")
    assert await find(semantic, AGAIN) == []
    assert counted("failed") == before + 1
    await add(semantic, ASKED)


async def test_a_slow_embedder_is_not_waited_for():
    semantic = layer(Slow(), timeout_seconds=0.05)
    await add(semantic, ASKED)
    started = asyncio.get_running_loop().time()
    assert await find(semantic, AGAIN) == []
    assert asyncio.get_running_loop().time() - started < 2


async def test_what_is_added_right_after_midnight_may_have_been_asked_before_it():
    index = MemoryIndex()
    early = SemanticLayer(index, Vectors(NEAR), now=Clock(2025, 11, 30, 0, 1, 30))
    await add(early, ASKED)
    assert await find(layer(index=index), AGAIN) == []


async def test_today_follows_the_time_zone():
    late = Clock(2025, 11, 30, 23, 30)
    assert SemanticLayer(MemoryIndex(), Vectors(), now=late).today().day == 30
    assert SemanticLayer(MemoryIndex(), Vectors(), time_zone="Europe/Madrid", now=late).today().day == 1
    with pytest.raises(WrongSetting):
        SemanticLayer(MemoryIndex(), Vectors(), time_zone="Mars/Olympus")


async def test_a_batch_is_answered_in_order_with_one_call_for_vectors():
    embedder = Vectors(NEAR)
    semantic = layer(embedder)
    await add(semantic, ASKED)
    texts = ["contracts with Acme", AGAIN, "", AGAIN]
    found = await semantic.find([(Question("acme", "s", text), 0.9) for text in texts])
    assert [len(matches) for matches in found] == [0, 1, 0, 1]
    assert len(embedder.asked) == 3
    assert await semantic.find([]) == []


async def test_a_question_is_forgotten_in_time():
    class Seconds:
        now = 0.0

        def __call__(self):
            return self.now

    clock = Seconds()
    semantic = layer(index=MemoryIndex(clock=clock))
    await add(semantic, ASKED, ttl_ms=1000)
    clock.now = 0.9
    assert len(await find(semantic, AGAIN)) == 1
    clock.now = 1.1
    assert await find(semantic, AGAIN) == []
