"""Which collections a query is about."""

import itertools
from dataclasses import replace

from services.retrieval.routing import Router
from services.retrieval.store import Collection, QueryVectors, SparseTerms

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


KNOWN = [Collection(name, "what it holds") for name in AXES]


async def chosen(router, query, collections=KNOWN):
    return {one.name for one in await router.route(query, collections) if one.chosen}


async def test_one_several_or_none_are_chosen():
    router = Router(AxisEmbedder())
    assert await chosen(router, "0.9 0.1 0.1") == {"contracts"}
    assert await chosen(router, "0.6 0.599 0.1") == {"contracts", "policies"}
    assert await chosen(router, "0.1 0.2 0.9") == set()


async def test_all_are_searched_when_nothing_can_be_said():
    assert await chosen(Router(AxisEmbedder()), "0.30 0.10 0.32") == {"contracts", "policies"}


async def test_a_collection_without_description_is_always_searched():
    router, known = Router(AxisEmbedder()), [*KNOWN, Collection("misc")]
    assert await chosen(router, "0.9 0.1 0.1", known) == {"contracts", "misc"}
    assert await chosen(router, "0.1 0.2 0.9", known) == {"misc"}


async def test_only_the_given_collections_are_chosen_among():
    router, policies = Router(AxisEmbedder()), KNOWN[1:]
    assert await chosen(router, "0.1 0.9 0.1", policies) == {"policies"}
    assert await chosen(router, "0.9 0.1 0.2", policies) == set()


async def test_descriptions_are_embedded_once():
    embedder = AxisEmbedder()
    router = Router(embedder)
    await chosen(router, "1 0 0")
    count = len(embedder.texts)
    await chosen(router, "0 1 0")
    assert len(embedder.texts) == count
    await chosen(router, "0 1 0", [KNOWN[0], Collection("policies", "something else")])
    assert len(embedder.texts) == count + 1


async def test_the_best_comes_first():
    routed = await Router(AxisEmbedder()).route("0.2 0.9 0.1", KNOWN)
    assert [one.name for one in routed] == ["policies", "contracts"]


async def test_a_query_that_is_embedded_already_is_not_embedded_again_but_for_another_model():
    router = Router(AxisEmbedder())
    ours = QueryVectors("m", (0.9, 0.1, 0.1), SparseTerms((), ()), None)
    assert [one.name for one in await router.route("not a vector", KNOWN, ours) if one.chosen] == ["contracts"]
    theirs = replace(ours, model="another")
    assert [one.name for one in await router.route("0.1 0.9 0.1", KNOWN, theirs) if one.chosen] == ["policies"]
