"""What the embedded store's registry says of editions, generations and shards."""

from datetime import UTC, datetime

import pytest

from services.retrieval.edge.registry import Registry, ShardRow
from services.retrieval.placement import Placement
from services.retrieval.store import Collection, Document, Index, Migration, MigrationState, Quantization, Reader

ACME = Reader("acme")
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


@pytest.fixture
def registry(tmp_path):
    registry = Registry(tmp_path / "registry.sqlite")
    registry.collections.put("acme", Collection("docs"))
    yield registry
    registry.close()


def put(registry, document_id, collection="docs", reader=ACME, **fields):
    document = Document(document_id, collection, "m", update_time=NOW, **fields)
    target = registry.target(reader, document)
    generation = f"g-{reader.tenant}-{document_id}-{fields.get('title', '')}"
    registry.begin(generation, target.placement.name)
    registry.commit(reader, document, generation, target)
    return generation


def second(registry, document_id):
    document, _, _ = registry.document(ACME, document_id)
    target = registry.migrations.target("acme", document)
    registry.begin(f"second-{document_id}", target.placement.name)
    registry.migrations.commit("acme", document, document, f"second-{document_id}", target)
    return target


def test_a_replaced_generation_is_loose_until_its_points_are_gone(registry):
    first = put(registry, "d")
    assert registry.loose([], 9) == []
    latest = put(registry, "d", title="New")
    assert registry.generations(ACME, ["d", "e"]) == {"d": latest}
    assert [generation for generation, _ in registry.loose([], 9)] == [first]
    assert registry.loose([first], 9) == []
    registry.forget([first])
    assert registry.loose([], 9) == []


def test_the_versions_of_a_hidden_edition_become_loose_bit_by_bit(registry):
    registry.collections.put("other", Collection("docs"))
    kept = put(registry, "kept", "docs", Reader("other"))
    generations = {put(registry, f"d{n}") for n in range(5)}
    registry.collections.delete(ACME, "docs")
    swept = set()
    while loose := [generation for generation, _ in registry.loose([], 2)]:
        assert len(loose) <= 2
        swept.update(loose)
        registry.forget(loose)
    assert swept == generations
    assert registry.generations(Reader("other"), ["kept"]) == {"kept": kept}


def test_a_search_looks_at_the_shards_of_its_collections(registry):
    small = Index(quantization=Quantization.SCALAR, hnsw_ef=64, oversampling=4, rescore=False)
    registry.collections.put("acme", Collection("small", index=small))
    registry.collections.put("acme", Collection("other"))
    for name in ("docs", "small", "other"):
        put(registry, name, name)
    plain, compressed = Placement("m").name, Placement("m", quantization=Quantization.SCALAR).name
    assert set(registry.scopes("acme", [], "m")) == {plain, compressed}
    (scope,) = registry.scopes("acme", ["small"], "m").values()
    assert (scope.hnsw_ef, scope.oversampling, scope.rescore) == (64, 4, False)
    assert len(scope.editions) == 1
    assert len(registry.scopes("acme", ["docs", "other"], "m")[plain].editions) == 2
    assert registry.scopes("acme", [], "unknown") == {}
    assert registry.scopes("nobody", [], "m") == {}


def test_an_edition_that_is_not_complete_or_not_wanted_is_hidden(registry):
    put(registry, "d")
    (before,) = registry.scopes("acme", ["docs"], "m").values()
    registry.migrations.begin("acme", "docs", Migration(MigrationState.RUNNING, "m", Index()))
    target = second(registry, "d")
    (during,) = registry.scopes("acme", ["docs"], "m").values()
    assert (during.editions, during.hidden) == (before.editions, [target.edition])
    assert registry.migrations.end("acme", "docs", MigrationState.DONE, "")
    (after,) = registry.scopes("acme", ["docs"], "m").values()
    assert (after.editions, after.hidden) == ([target.edition], before.editions)
    registry.forget([generation for generation, _ in registry.loose([], 9)])
    (swept,) = registry.scopes("acme", ["docs"], "m").values()
    assert swept.hidden == []


def test_a_shard_without_points_is_forgotten(registry):
    for name in ("m", "empty"):
        registry.put_shard(ShardRow(Placement(name), name, 2))
    put(registry, "d")
    assert registry.forget_unused_shards() == [Placement("empty").name]
    assert registry.shards() == [ShardRow(Placement("m"), "m", 2)]


def test_times_are_kept_to_the_microsecond(registry):
    put(registry, "d")
    document, _, _ = registry.document(ACME, "d")
    assert document.update_time == NOW
    assert registry.collections.all(ACME)[0].update_time == NOW
