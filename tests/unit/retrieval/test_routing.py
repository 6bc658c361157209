"""Which collections a query is about."""

import itertools
from dataclasses import replace

import pytest

from services.retrieval.memory_store import MemoryStore
from services.retrieval.routing import Router
from services.retrieval.store import Collection, QueryVectors, Reader, SparseTerms
from services.runtime.errors import NotFound

ACME = Reader("acme")
AXES = {"contracts": (1.0, 0.0, 0.0), "policies": (0.0, 1.0, 0.0)}


class AxisEmbedder:
    """Descriptions lie on the axis of their name, everything else on a third one; queries name their place."""

    def __init__(self):
        self.texts = []

    async def model(self):
        return "m"

    async def query_vector(self, text):
        return tuple(float(part) for part in text.split())

    async def document_vectors(self, texts):
        self.texts += texts
        elsewhere = itertools.cycle([(0.0, 0.0, 1.0), (0.0, 0.0, 0.9), (0.0, 0.0, 0.8)])
        return [AXES.get(text.partition(":")[0]) or next(elsewhere) for text in texts]


async def router():
    store = MemoryStore()
    for name in AXES:
        await store.put_collection(ACME, Collection(name, "what it holds"))
    embedder = AxisEmbedder()
    return Router(store, embedder), store, embedder


async def chosen(route, query, names=()):
    return {one.name for one in await route.route(ACME, query, names) if one.chosen}


async def test_one_several_or_none_are_chosen():
    route, _, _ = await router()
    assert await chosen(route, "0.9 0.1 0.1") == {"contracts"}
    assert await chosen(route, "0.6 0.599 0.1") == {"contracts", "policies"}
    assert await chosen(route, "0.1 0.2 0.9") == set()


async def test_all_are_searched_when_nothing_can_be_said():
    route, _, _ = await router()
    assert await chosen(route, "0.30 0.10 0.32") == {"contracts", "policies"}


async def test_a_collection_without_description_is_always_searched():
    route, store, _ = await router()
    await store.put_collection(ACME, Collection("misc"))
    assert await chosen(route, "0.9 0.1 0.1") == {"contracts", "misc"}
    assert await chosen(route, "0.1 0.2 0.9") == {"misc"}


async def test_only_the_given_collections_are_chosen_among():
    route, _, _ = await router()
    assert await chosen(route, "0.1 0.9 0.1", ["policies"]) == {"policies"}
    assert await chosen(route, "0.9 0.1 0.2", ["policies"]) == set()
    with pytest.raises(NotFound):
        await route.route(ACME, "1 0 0", ["nothing"])


async def test_descriptions_are_embedded_once():
    route, store, embedder = await router()
    await chosen(route, "1 0 0")
    count = len(embedder.texts)
    await chosen(route, "0 1 0")
    assert len(embedder.texts) == count
    await store.put_collection(ACME, Collection("policies", "something else"))
    await chosen(route, "0 1 0")
    assert len(embedder.texts) == count + 1


async def test_the_best_comes_first():
    route, _, _ = await router()
    assert [one.name for one in await route.route(ACME, "0.2 0.9 0.1", ())] == ["policies", "contracts"]


async def test_a_query_that_is_embedded_already_is_not_embedded_again_but_for_another_model():
    route, _, _ = await router()
    ours = QueryVectors("m", (0.9, 0.1, 0.1), SparseTerms((), ()), None)
    assert [one.name for one in await route.route(ACME, "not a vector", (), ours) if one.chosen] == ["contracts"]
    theirs = replace(ours, model="another")
    assert [one.name for one in await route.route(ACME, "0.1 0.9 0.1", (), theirs) if one.chosen] == ["policies"]
