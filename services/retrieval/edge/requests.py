"""Queries, filters and configuration in the words of the embedded engine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import qdrant_edge as engine

from services.retrieval.payload import CHUNK_FIELDS, TENANT_FIELD, facet, open_to
from services.retrieval.placement import Placement
from services.retrieval.store import Filter, Mode, Quantization, Query, Reader

# In kilobytes of vectors: where fewer match a filter they are all compared, and nothing is missed. Those of 20,000
# chunks of 384 values take 12 milliseconds so, and the graph serves what is larger.
_COMPARE_ALL_BELOW_KB = 10_000
_READ = [*CHUNK_FIELDS, "generation", "token_offset", "token_bytes"]


@dataclass(frozen=True)
class Scope:
    """What a search looks at in one shard.

    Only `editions`; none means all of the tenant but the `hidden` ones, which are being written or deleted.
    """

    editions: Sequence[str] = ()
    hidden: Sequence[str] = ()
    hnsw_ef: int = 128
    oversampling: float = 2.0
    rescore: bool = True


@dataclass(frozen=True)
class Requests:
    """The two rounds of one search: the best of each leg, then the scores that only the other leg has given."""

    reader: Reader
    query: Query
    scope: Scope
    excluded: Sequence[str]
    has_idf: bool

    def legs(self) -> dict[str, engine.QueryRequest]:
        """One request for each leg that takes part, the one that reads payloads first."""
        limit, matching, found = self.query.limit, self._matching(), dict[str, engine.QueryRequest]()
        if self.query.mode is not Mode.SPARSE:
            found["dense"] = self._request("dense", limit, matching, self._dense_params(), read=True)
        if self.query.mode is not Mode.DENSE and len(self.query.sparse.indices) > 0:
            found["sparse"] = self._request("sparse", limit, matching, self._sparse_params(), read=not found)
        return found

    def rest(self, leg: str, ids: Iterable[str]) -> engine.QueryRequest:
        """Exact scores of these points in `leg`; with their payloads where the first round has not read them."""
        wanted: set[engine.PointId] = set(ids)
        params = self._sparse_params(exact=True) if leg == "sparse" else _EXACT
        only = engine.Filter(must=[engine.HasIdCondition(wanted)])
        return self._request(leg, len(wanted), only, params, read=leg == "dense")

    def _request(
        self, leg: str, limit: int, matching: engine.Filter, params: engine.SearchParams, read: bool
    ) -> engine.QueryRequest:
        terms = self.query.sparse
        wanted = (
            engine.Query.Nearest(list(self.query.dense), using="dense")
            if leg == "dense"
            else engine.Query.Nearest(engine.SparseVector(list(terms.indices), list(terms.values)), using="sparse")
        )
        vectors = ["dense"] if read and self.query.with_vectors else None
        fields = _READ if read else None
        return engine.QueryRequest(
            limit=limit, query=wanted, params=params, filter=matching, with_payload=fields, with_vector=vectors
        )

    def _dense_params(self) -> engine.SearchParams:
        scope = self.scope
        quantization = engine.QuantizationSearchParams(rescore=scope.rescore, oversampling=scope.oversampling)
        acorn = engine.AcornSearchParams(enable=True)
        return engine.SearchParams(hnsw_ef=scope.hnsw_ef, quantization=quantization, acorn=acorn)

    def _sparse_params(self, exact: bool = False) -> engine.SearchParams:
        if not self.has_idf:
            return engine.SearchParams(exact=exact)
        # Frequencies are counted among the tenant's own passages: others' must neither show nor disturb.
        corpus = engine.Filter(must=[equals(TENANT_FIELD, self.reader.tenant)], must_not=self._hidden())
        return engine.SearchParams(idf=engine.IdfParams(corpus=corpus), exact=exact)

    def _hidden(self) -> "list[engine.ConditionType] | None":
        return [any_of("edition", self.scope.hidden)] if self.scope.hidden else None

    def _matching(self) -> engine.Filter:
        wanted: Filter = self.query.filter
        must: list[engine.ConditionType] = [equals(TENANT_FIELD, self.reader.tenant)]
        must_not: list[engine.ConditionType] = []
        if not self.reader.sees_all:
            must.append(any_of("labels", open_to(self.reader)))
        if self.scope.editions:
            must.append(any_of("edition", self.scope.editions))
        else:
            must_not.extend(self._hidden() or [])
        if wanted.document_ids:
            must.append(any_of("document_id", wanted.document_ids))
        if wanted.language:
            must.append(equals("language", wanted.language))
        for condition in wanted.conditions:
            must.append(any_of("facets", [facet(condition.key, value) for value in condition.any_of]))
        if self.excluded:
            must_not.append(any_of("generation", self.excluded))
        return engine.Filter(must=must, must_not=must_not or None)


_EXACT = engine.SearchParams(exact=True, quantization=engine.QuantizationSearchParams(ignore=True))


def equals(key: str, value: str) -> engine.FieldCondition:
    """The field has this value."""
    return engine.FieldCondition(key, match=engine.MatchValue(value))


def any_of(key: str, values: Sequence[str]) -> engine.FieldCondition:
    """The field has one of these values."""
    return engine.FieldCondition(key, match=engine.MatchAny(list(values)))


def config(placement: Placement, dimensions: int, threads: int = 1) -> engine.EdgeConfig:
    """Dense vectors with HNSW, sparse ones with IDF unless their weights are learned. `threads` search."""
    modifier = None if placement.learned_sparse else engine.Modifier.Idf
    return engine.EdgeConfig(
        vectors={"dense": engine.EdgeVectorParams(size=dimensions, distance=engine.Distance.Cosine)},
        sparse_vectors={"sparse": engine.EdgeSparseVectorParams(modifier=modifier)},
        hnsw_config=engine.HnswIndexConfig(
            m=placement.hnsw_m,
            ef_construct=placement.hnsw_ef_construct,
            full_scan_threshold=_COMPARE_ALL_BELOW_KB,
            max_indexing_threads=1,
        ),
        quantization_config=_quantization(placement.quantization),
        # When to build is the store's decision (see reindex.py): all that is handed over gets an index.
        optimizers=engine.EdgeOptimizersConfig(indexing_threshold=1),
        # The engine's own choice is eight at least, which take longer to wake than a small shard takes to search.
        max_search_threads=threads,
    )


def _quantization(kind: Quantization) -> "engine.QuantizationConfigType | None":
    match kind:
        case Quantization.NONE:
            return None
        case Quantization.SCALAR:
            return engine.ScalarQuantizationConfig(engine.ScalarType.Int8, quantile=0.99)
        case Quantization.BINARY:
            return engine.BinaryQuantizationConfig()
        case Quantization.PRODUCT:
            return engine.ProductQuantizationConfig(engine.CompressionRatio.X16)
