"""One shard of the embedded Qdrant engine: chunks of one embedding model, in one folder.

The engine's Python binding keeps the interpreter lock for the whole of each call. A search takes one or two
milliseconds, writes come in small batches, and the index is built by another process (reindex.py).
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import qdrant_edge as engine

from services.retrieval.payload import INDEXED_FIELDS, TENANT_FIELD, facet
from services.retrieval.store import LEG_LIMIT, RRF_K, Filter, Mode, NewChunk, Query
from services.retrieval.token_files import sync_path

_PAGE = 256
# A search looks as wide as the graph was built. Recall@10 against exact search is above 0.98.
_WIDTH = 128


@dataclass(frozen=True)
class Found:
    """A point that was found, with what each leg said of it."""

    payload: dict[str, Any]
    dense: float
    sparse: float
    fused: float


def config(dimensions: int) -> engine.EdgeConfig:
    """Dense vectors with HNSW, sparse ones with IDF."""
    return engine.EdgeConfig(
        vectors={"dense": engine.EdgeVectorParams(size=dimensions, distance=engine.Distance.Cosine)},
        sparse_vectors={"sparse": engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)},
        hnsw_config=engine.HnswIndexConfig(
            m=16, ef_construct=_WIDTH, full_scan_threshold=10_000, max_indexing_threads=1
        ),
        # When to build is the store's decision (see reindex.py): all that is handed over gets an index.
        optimizers=engine.EdgeOptimizersConfig(indexing_threshold=1),
    )


class EdgeShard:
    """Blocking. Calls may come from several threads; they take turns."""

    def __init__(self, directory: Path, dimensions: int) -> None:
        """Opens the shard in `directory`, or makes it."""
        self.directory = directory
        self.dimensions = dimensions
        self._lock = threading.Lock()
        if (directory / "edge_config.json").exists():
            self._shard = engine.EdgeShard.load(str(directory))
        else:
            directory.mkdir(parents=True, exist_ok=True)
            self._shard = engine.EdgeShard.create(str(directory), config(dimensions))
            self._index(TENANT_FIELD, is_tenant=True)
            for name in INDEXED_FIELDS:
                self._index(name)
            self._shard.flush()

    def _index(self, name: str, is_tenant: bool = False) -> None:
        params = engine.KeywordIndexParams(is_tenant=is_tenant)
        self._shard.update(engine.UpdateOperation.create_field_index(name, params))

    def search(self, tenant: str, query: Query, excluded: Sequence[str]) -> list[Found]:
        """The best points by fused score. Points of the `excluded` generations do not take part."""
        matching = _filter(tenant, query.filter, excluded)
        dense = _Leg(engine.Query.Nearest(list(query.dense), using="dense"))
        terms = engine.SparseVector(list(query.sparse.indices), list(query.sparse.values))
        # Frequencies are counted among the tenant's own passages: others' must neither show nor disturb.
        corpus = engine.IdfParams(corpus=engine.Filter(must=[_equals(TENANT_FIELD, tenant)]))
        sparse = _Leg(engine.Query.Nearest(terms, using="sparse"), engine.SearchParams(idf=corpus))
        has_terms = len(query.sparse.indices) > 0
        match query.mode:
            case Mode.SPARSE if not has_terms:
                return []
            case Mode.SPARSE:
                return [
                    _found(p, sparse=p.score) for p in self._query([sparse.request(query.limit, matching, True)])[0]
                ]
            case Mode.HYBRID if has_terms:
                return self._hybrid(dense, sparse, query.limit, matching)
            case _:
                return [_found(p, dense=p.score) for p in self._query([dense.request(query.limit, matching, True)])[0]]

    def _hybrid(self, dense: "_Leg", sparse: "_Leg", limit: int, matching: engine.Filter) -> list[Found]:
        width = max(LEG_LIMIT, limit)
        fused = engine.QueryRequest(
            limit=limit,
            prefetches=[leg.prefetch(width, matching) for leg in (dense, sparse)],
            query=engine.Fusion.Rrf(k=RRF_K),  # pyright: ignore[reportArgumentType]
            with_payload=True,
        )
        # The engine plans the batch as a whole: the legs, asked again for their scores, cost half a millisecond.
        legs = [leg.request(width, matching, False) for leg in (dense, sparse)]
        points, by_meaning, by_words = self._query([fused, *legs])
        dense_scores = {point.id: point.score for point in by_meaning}
        sparse_scores = {point.id: point.score for point in by_words}
        return [
            Found(
                cast(dict[str, Any], point.payload),
                dense_scores.get(point.id, 0.0),
                sparse_scores.get(point.id, 0.0),
                point.score,
            )
            for point in points
        ]

    def _query(self, requests: list[engine.QueryRequest]) -> list[list[engine.ScoredPoint]]:
        with self._lock:
            return self._shard.query_batch(engine.QueryBatchRequest(requests))

    def add(self, chunks: Sequence[tuple[str, NewChunk, dict[str, Any]]]) -> None:
        """Writes chunks, each with its point id and payload."""
        self._upsert(
            [
                engine.Point(
                    id,
                    {
                        "dense": list(chunk.dense),
                        "sparse": engine.SparseVector(list(chunk.sparse.indices), list(chunk.sparse.values)),
                    },
                    payload,
                )
                for id, chunk, payload in chunks
            ]
        )

    def _upsert(self, points: list[engine.Point]) -> None:
        with self._lock:
            self._shard.update(engine.UpdateOperation.upsert_points(points))

    def delete(self, generation: str) -> None:
        """Removes all points of `generation`."""
        with self._lock:
            matching = engine.Filter(must=[_equals("generation", generation)])
            self._shard.update(engine.UpdateOperation.delete_points_by_filter(matching))

    def payloads(self, generation: str) -> list[dict[str, Any]]:
        """Payloads of all points of `generation`, in no order."""
        return [cast(dict[str, Any], record.payload) for record in self._scroll(generation, with_vector=False)]

    def copy_to(self, other: "EdgeShard", generation: str) -> None:
        """Writes the points of `generation` to another shard as well."""
        records = self._scroll(generation, with_vector=True)
        for start in range(0, len(records), _PAGE):
            page = records[start : start + _PAGE]
            other._upsert([engine.Point(r.id, cast("engine.Vector", r.vector), r.payload) for r in page])

    def _scroll(self, generation: str, with_vector: bool) -> list[engine.Record]:
        matching = engine.Filter(must=[_equals("generation", generation)])
        found: list[engine.Record] = []
        offset: engine.PointId | None = None
        while True:
            request = engine.ScrollRequest(
                offset=offset, limit=_PAGE, filter=matching, with_payload=True, with_vector=with_vector
            )
            with self._lock:
                records, offset = self._shard.scroll(request)
            found.extend(records)
            if offset is None:
                return found

    def sync(self) -> None:
        """What was written survives a loss of power once this returns.

        The write-ahead log is enough for that, and unlike the engine's own flush it leaves the interpreter free.
        """
        for log in (self.directory / "wal").glob("open-*"):
            sync_path(log)

    def flush(self) -> None:
        """Writes all segments and cuts the log."""
        with self._lock:
            self._shard.flush()

    def optimize(self) -> None:
        """Builds the index. Takes seconds per ten thousand points and keeps the interpreter: see reindex.py."""
        self._shard.optimize()
        self._shard.flush()

    def unindexed_count(self) -> int:
        """Chunks that a search compares one by one."""
        with self._lock:
            info = self._shard.info()
        # The engine counts both vectors of a chunk, and the sparse one is indexed as it is written.
        return max(0, 2 * info.points_count - info.indexed_vectors_count)

    def close(self) -> None:
        """Flushes and lets go of the folder."""
        with self._lock:
            self._shard.flush()
            self._shard.close()


@dataclass(frozen=True)
class _Leg:
    """One of the two ways to look for a chunk."""

    query: engine.Query
    params: engine.SearchParams | None = None

    def prefetch(self, limit: int, matching: engine.Filter) -> engine.Prefetch:
        return engine.Prefetch(limit=limit, query=self.query, params=self.params, filter=matching)

    def request(self, limit: int, matching: engine.Filter, with_payload: bool) -> engine.QueryRequest:
        return engine.QueryRequest(
            limit=limit, query=self.query, params=self.params, filter=matching, with_payload=with_payload
        )


def _found(point: engine.ScoredPoint, dense: float = 0.0, sparse: float = 0.0) -> Found:
    return Found(cast(dict[str, Any], point.payload), dense, sparse, point.score)


def _equals(key: str, value: str) -> engine.FieldCondition:
    return engine.FieldCondition(key, match=engine.MatchValue(value))


def _any(key: str, values: Sequence[str]) -> engine.FieldCondition:
    return engine.FieldCondition(key, match=engine.MatchAny(list(values)))


def _filter(tenant: str, wanted: Filter, excluded: Sequence[str]) -> engine.Filter:
    must: list[engine.ConditionType] = [_equals(TENANT_FIELD, tenant)]
    if wanted.collections:
        must.append(_any("collection", wanted.collections))
    if wanted.document_ids:
        must.append(_any("document_id", wanted.document_ids))
    if wanted.language:
        must.append(_equals("language", wanted.language))
    for condition in wanted.conditions:
        must.append(_any("facets", [facet(condition.key, value) for value in condition.any_of]))
    return engine.Filter(must=must, must_not=[_any("generation", excluded)] if excluded else None)
