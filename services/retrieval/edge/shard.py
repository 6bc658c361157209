"""One shard of the embedded Qdrant engine: chunks of one placement, in one folder.

The engine's Python binding keeps the interpreter lock for the whole of each call. A search takes a few milliseconds,
writes come in small batches, and the index is built by another process (reindex.py).
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import qdrant_edge as engine

from services.retrieval.edge.requests import Requests, Scope, any_of, config, equals
from services.retrieval.edge.token_files import sync_path
from services.retrieval.payload import INDEXED_FIELDS, TENANT_FIELD
from services.retrieval.placement import Placement
from services.retrieval.store import NewChunk, Query, Reader

_PAGE = 256


class MissingPayloadIndex(RuntimeError):
    """A field that searches filter by has no index: they would be slow, or wrong."""


@dataclass(frozen=True)
class Found:
    """A point that was found, with its exact scores in the legs that took part."""

    id: str
    payload: dict[str, Any]
    dense: float = 0.0
    sparse: float = 0.0
    vector: Sequence[float] = ()

    @property
    def version(self) -> tuple[str, str]:
        """Document and generation."""
        return self.payload["document_id"], self.payload["generation"]


class EdgeShard:
    """Blocking. Calls may come from several threads; they take turns."""

    def __init__(self, directory: Path, placement: Placement, shard: engine.EdgeShard) -> None:
        """See `create` and `load`."""
        self.directory = directory
        self._has_idf = not placement.learned_sparse
        self._shard = shard
        self._lock = threading.Lock()

    @classmethod
    def create(cls, directory: Path, placement: Placement, dimensions: int) -> "EdgeShard":
        """Makes an empty shard with all its payload indexes."""
        directory.mkdir(parents=True)
        shard = engine.EdgeShard.create(str(directory), config(placement, dimensions))
        for name in (TENANT_FIELD, *INDEXED_FIELDS):
            params = engine.KeywordIndexParams(is_tenant=name == TENANT_FIELD)
            shard.update(engine.UpdateOperation.create_field_index(name, params))
        shard.flush()
        return cls(directory, placement, shard)

    @classmethod
    def load(cls, directory: Path, placement: Placement, settings: engine.EdgeConfig | None = None) -> "EdgeShard":
        """Opens what is there; `settings` change how it is searched from now on. Raises MissingPayloadIndex."""
        shard = engine.EdgeShard.load(str(directory), settings)
        missing = sorted({TENANT_FIELD, *INDEXED_FIELDS} - set(shard.info().payload_schema))
        if missing:
            shard.close()
            raise MissingPayloadIndex(
                f"{directory} has no payload index for {', '.join(missing)}: delete the store's folder and ingest again"
            )
        return cls(directory, placement, shard)

    def search(self, reader: Reader, query: Query, scope: Scope, excluded: Sequence[str]) -> list[Found]:
        """The candidates of all legs. Points of the `excluded` generations do not take part."""
        requests = Requests(reader, query, scope, excluded, self._has_idf)
        legs = requests.legs()
        if not legs:
            return []
        # Without a break in between: what the first round found is still there in the second.
        with self._lock:
            answers = self._query(legs)
            ids = {id for answer in answers.values() for id in answer}
            # Similarities of compressed vectors choose the candidates; what is told is exact all the same.
            exact = {leg for leg in legs if leg == "sparse" or scope.rescore}
            missing = {leg: ids - answer.keys() if leg in exact else ids for leg, answer in answers.items()}
            more = self._query({leg: requests.rest(leg, rest) for leg, rest in missing.items() if rest})
        return _joined([*answers.items(), *more.items()])

    def _query(self, requests: Mapping[str, engine.QueryRequest]) -> dict[str, dict[str, engine.ScoredPoint]]:
        """Points by id, of each leg."""
        if not requests:
            return {}
        # The engine plans the batch as a whole, which is cheaper than one after the other.
        answers = self._shard.query_batch(engine.QueryBatchRequest(list(requests.values())))
        return {leg: {str(point.id): point for point in points} for leg, points in zip(requests, answers, strict=True)}

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

    def delete(self, generations: Iterable[str]) -> None:
        """Removes all points of these generations."""
        matching = engine.Filter(must=[any_of("generation", list(generations))])
        with self._lock:
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
        matching = engine.Filter(must=[equals("generation", generation)])
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


def optimize(directory: Path) -> None:
    """Builds the index. Takes seconds per ten thousand points and keeps the interpreter: see reindex.py."""
    shard = engine.EdgeShard.load(str(directory))
    shard.optimize()
    shard.flush()
    shard.close()


def _joined(answers: Iterable[tuple[str, Mapping[str, engine.ScoredPoint]]]) -> list[Found]:
    """Points with the scores of each leg. A later answer's score counts instead of an earlier one's."""
    payloads: dict[str, dict[str, Any]] = {}
    vectors: dict[str, Sequence[float]] = {}
    scores: dict[str, dict[str, float]] = {}
    for leg, points in answers:
        for id, point in points.items():
            scores.setdefault(id, {})[leg] = point.score
            # Each look at a point's payload builds it anew.
            payload = None if id in payloads else point.payload
            if payload is not None:
                payloads[id] = payload
                vectors[id] = cast(dict[str, list[float]], point.vector or {}).get("dense", ())
    return [Found(id, payload, **scores[id], vector=vectors[id]) for id, payload in payloads.items()]
