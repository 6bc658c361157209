"""Near-equal calls through the service: what the semantic layer names is still checked as an equal call would be."""

import asyncio
import uuid
from contextlib import asynccontextmanager
from datetime import date

import pytest

from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc as rpc
from services.runtime.server import Served
from services.runtime.testing import act_as, running
from services.tool_cache.flights import Flights
from services.tool_cache.memory_store import MemoryStore
from services.tool_cache.semantic.layer import Match
from services.tool_cache.semantic_lookup import SemanticLookup
from services.tool_cache.server import DESCRIPTOR
from services.tool_cache.service import ToolCacheServicer
from tests.integration.tool_cache_client import call, counted, entry, get, invalidate, put, wait


class EagerLayer:
    """Takes every text that it knows for alike, whoever asks, whatever it was made for."""

    def __init__(self):
        self.known = []
        self.asked = 0
        self.seconds = 0
        self.day = date(2025, 3, 1)

    def today(self):
        return self.day

    async def find(self, questions):
        self.asked += 1
        await asyncio.sleep(self.seconds)
        return [[Match(text, 0.97) for text in reversed(self.known)] for _ in questions]

    def add_later(self, items):
        self.known += [question.text for question, _ in items]


@pytest.fixture
def layer():
    return EagerLayer()


@pytest.fixture
async def cache(layer):
    act_as(f"t{uuid.uuid4().hex[:8]}")
    async with serving(layer) as stub:
        yield stub


@asynccontextmanager
async def serving(layer):
    store = MemoryStore()
    flights = Flights(store, lease_seconds=60)
    servicer = ToolCacheServicer(store, flights, SemanticLookup(store, layer), max_value_bytes=1000)
    add = rpc.add_ToolCacheServiceServicer_to_server
    async with running(Served(servicer, add, DESCRIPTOR, close=flights.close)) as channel:
        yield rpc.ToolCacheServiceStub(channel)


def web(query, least=0.9, **fields):
    fields = {"tool": "web_search", "semantic_argument": "query", "min_similarity": least} | fields
    return {"arguments": f'{{"query":"{query}","top_k":{fields.pop("top_k", 5)}}}', **fields}


async def test_a_near_equal_call_is_told_from_an_equal_one(cache):
    await put(cache, entry(b'["pages"]', **web("vacation rules")))
    before = counted("lookups", result="semantic")
    equal, near = await get(cache, call(**web("vacation rules")), call(**web("rules for vacation")))
    assert (equal.kind, equal.matched_text) == (pb.LOOKUP_KIND_EXACT, "")
    assert (near.hit, near.value, near.kind) == (True, b'["pages"]', pb.LOOKUP_KIND_SEMANTIC)
    assert (near.matched_text, round(near.similarity, 2)) == ("vacation rules", 0.97)
    assert near.HasField("age")
    assert near.snapshot > 0
    assert counted("lookups", result="semantic") == before + 1


async def test_only_equal_calls_serve_without_a_least_similarity(cache, layer):
    await put(cache, entry(**web("vacation rules")))
    for other in (web("rules for vacation", least=0), web("rules for vacation", semantic_argument="")):
        assert not (await get(cache, call(**other)))[0].hit
    assert layer.asked == 0


async def test_what_was_stored_without_it_is_not_found_by_it(cache, layer):
    await put(cache, entry(**web("vacation rules", least=0)), entry(**web("b", semantic_argument="")))
    assert layer.known == []


@pytest.mark.parametrize("changed", [{"tool": "vector_search"}, {"version": "2"}, {"top_k": 6}])
async def test_all_but_the_text_must_be_equal(cache, changed):
    await put(cache, entry(**web("vacation rules")))
    assert not (await get(cache, call(**web("rules for vacation", **changed))))[0].hit


async def test_neither_another_tenant_nor_other_labels_are_served(cache):
    act_as("one", labels=["hr"])
    await put(cache, entry(**web("vacation rules")))
    for tenant, labels, hit in (("one", ["hr"], True), ("one", [], False), ("two", ["hr"], False)):
        act_as(tenant, labels=labels)
        assert (await get(cache, call(**web("rules for vacation"))))[0].hit == hit


async def test_what_is_old_is_not_found_by_a_near_equal_call_either(cache):
    await put(cache, entry(sources=["collection:policies"], **web("vacation rules")))
    await invalidate(cache, "collection:policies")
    assert not (await get(cache, call(**web("rules for vacation"))))[0].hit


async def test_the_next_best_serves_when_the_best_is_gone(cache):
    await put(cache, entry(b'"older"', **web("vacation rules")))
    await put(cache, entry(b'"newer"', sources=["collection:a"], **web("holiday rules")))
    await invalidate(cache, "collection:a")
    assert (await get(cache, call(**web("rules for vacation"))))[0].value == b'"older"'


async def test_what_was_not_stored_is_not_offered(cache, layer):
    await put(cache, entry(b'"' + b"x" * 2000 + b'"', **web("too large")))
    assert layer.known == []


async def test_whoever_is_served_gives_its_lease_back(cache):
    await put(cache, entry(**web("vacation rules")))
    [near] = await get(cache, call(**web("rules for vacation")), lease=True)
    assert (near.hit, near.lease_token) == (True, "")
    assert (await wait(cache, 2, **web("rules for vacation"))).lease_token


async def test_whoever_is_not_served_keeps_its_lease(cache):
    [miss] = await get(cache, call(**web("vacation rules")), lease=True)
    assert miss.lease_token


async def put_leased(cache, **fields):
    [found] = await get(cache, call(**fields), lease=True)
    return await put(cache, entry(token=found.lease_token, **fields))


async def test_words_that_depend_on_the_day_are_asked_anew_on_another_day(cache, layer):
    today, rules = web("sales today"), web("sales rules")
    assert await put_leased(cache, **today) == await put_leased(cache, **rules) == 1
    assert [one.hit for one in await get(cache, call(**today), call(**rules))] == [True] * 2
    layer.day = date(2025, 3, 2)
    layer.known.remove("sales rules")
    assert [one.hit for one in await get(cache, call(**today), call(**rules))] == [False, True]


async def test_what_was_made_over_midnight_is_not_stored_for_the_new_day(cache, layer):
    today = web("sales today")
    [found] = await get(cache, call(**today), lease=True)
    layer.day = date(2025, 3, 2)
    assert await put(cache, entry(token=found.lease_token, **today)) == 0
    assert await put(cache, entry(**today)) == 0
    assert not (await get(cache, call(**today)))[0].hit


async def test_a_slow_semantic_layer_costs_the_near_equal_calls_only(cache, layer):
    await put(cache, entry(**web("vacation rules")))
    layer.seconds = 10
    request = pb.BatchGetRequest(calls=[call(**web("vacation rules")), call(**web("rules for vacation"))])
    answer = await cache.BatchGet(request, timeout=0.5)
    assert [one.hit for one in answer.lookups] == [True, False]


async def test_a_caller_who_goes_while_texts_are_compared_holds_no_lease(cache, layer):
    await put(cache, entry(**web("vacation rules")))
    layer.seconds = 10
    looking = asyncio.ensure_future(get(cache, call(**web("rules for vacation")), lease=True))
    await asyncio.sleep(0.2)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    assert (await wait(cache, 2, **web("rules for vacation"))).lease_token
