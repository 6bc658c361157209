"""Queries, filters and configuration in the words of a Qdrant server."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qdrant_client import models

from services.retrieval.payload import CHUNK_FIELDS, TENANT_FIELD, facet, open_to
from services.retrieval.placement import Placement
from services.retrieval.store import Filter, Mode, Quantization, Query, Reader

DENSE, SPARSE, TOKENS = "dense", "sparse", "tokens"
_VERSION_FIELDS = ["document_id", "generation"]
_READ = [*CHUNK_FIELDS, "generation"]


@dataclass(frozen=True)
class Scope:
    """What a search looks at in one physical collection: its `editions`.

    Words are counted in all of the tenant's passages there, those of the editions in `corpus`.
    """

    placement: Placement
    editions: Sequence[str]
    corpus: Sequence[str]
    hnsw_ef: int
    oversampling: float
    rescore: bool


@dataclass(frozen=True)
class Requests:
    """The two rounds of one search: the best of each leg, then the scores that only the other leg has given.

    `indexed`: False for the client's memory mode, which compares everything and warns of any wish to the contrary.
    """

    reader: Reader
    query: Query
    scope: Scope
    excluded: Sequence[str]
    indexed: bool

    def legs(self) -> dict[str, models.QueryRequest]:
        """One request for each leg that takes part; the first one reads the passages."""
        limit, matching, found = self.query.limit, self._matching(), dict[str, models.QueryRequest]()
        if self.query.mode is not Mode.SPARSE:
            found[DENSE] = self._request(DENSE, limit, matching, self._dense_params(), _READ)
        if self.query.mode is not Mode.DENSE and len(self.query.sparse.indices) > 0:
            fields = _VERSION_FIELDS if found else _READ
            found[SPARSE] = self._request(SPARSE, limit, matching, self._sparse_params(), fields)
        return found

    def rest(self, leg: str, ids: Iterable[str]) -> models.QueryRequest:
        """Exact scores of these points in `leg`; with the passages where the first round has not read them."""
        wanted = sorted(ids)
        matching = all_of([equals(TENANT_FIELD, self.reader.tenant), models.HasIdCondition(has_id=list(wanted))])
        if leg == SPARSE:
            return self._request(SPARSE, len(wanted), matching, self._sparse_params(exact=True), [])
        params = _EXACT if self.indexed else None
        return self._request(DENSE, len(wanted), matching, params, _READ)

    def _request(
        self,
        leg: str,
        limit: int,
        matching: models.Filter,
        params: models.SearchParams | None,
        fields: list[str],
    ) -> models.QueryRequest:
        terms = self.query.sparse
        wanted = (
            list(self.query.dense)
            if leg == DENSE
            else models.SparseVector(indices=list(terms.indices), values=list(terms.values))
        )
        return models.QueryRequest(
            query=wanted,
            using=leg,
            limit=limit,
            filter=matching,
            params=params,
            with_payload=fields or False,
            with_vector=[DENSE] if self.query.with_vectors and fields is _READ else False,
        )

    def _dense_params(self) -> models.SearchParams | None:
        if not self.indexed:
            return None
        scope = self.scope
        return models.SearchParams(
            hnsw_ef=scope.hnsw_ef,
            quantization=models.QuantizationSearchParams(rescore=scope.rescore, oversampling=scope.oversampling),
            acorn=models.AcornSearchParams(enable=True),
        )

    def _sparse_params(self, exact: bool = False) -> models.SearchParams | None:
        idf = None
        if not self.scope.placement.learned_sparse:
            # Frequencies are counted among the tenant's own passages: others' must neither show nor disturb.
            corpus = all_of([equals(TENANT_FIELD, self.reader.tenant), any_of("edition", self.scope.corpus)])
            idf = models.IdfCorpusParams(corpus=corpus)
        return models.SearchParams(idf=idf, exact=exact and self.indexed)

    def _matching(self) -> models.Filter:
        wanted: Filter = self.query.filter
        must: list[models.Condition] = [equals(TENANT_FIELD, self.reader.tenant)]
        must.append(any_of("edition", self.scope.editions))
        if not self.reader.sees_all:
            must.append(any_of("labels", open_to(self.reader)))
        if wanted.document_ids:
            must.append(any_of("document_id", wanted.document_ids))
        if wanted.language:
            must.append(equals("language", wanted.language))
        for condition in wanted.conditions:
            must.append(any_of("facets", [facet(condition.key, value) for value in condition.any_of]))
        return all_of(must, [any_of("generation", self.excluded)] if self.excluded else [])


_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))


def equals(key: str, value: str) -> models.FieldCondition:
    """The field has this value."""
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def any_of(key: str, values: Sequence[str]) -> models.FieldCondition:
    """The field has one of these values."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def all_of(must: Sequence[models.Condition], must_not: Sequence[models.Condition] = ()) -> models.Filter:
    """All of `must` and none of `must_not`."""
    return models.Filter(must=list(must), must_not=list(must_not))


def dense_vectors(placement: Placement, dimensions: int, on_disk: bool | None = None) -> models.VectorParams:
    """Cosine with HNSW, compressed as the placement says. `on_disk`: vectors and graph; None: as the server has it."""
    return models.VectorParams(
        size=dimensions,
        distance=models.Distance.COSINE,
        hnsw_config=models.HnswConfigDiff(
            m=placement.hnsw_m, ef_construct=placement.hnsw_ef_construct, on_disk=on_disk
        ),
        on_disk=on_disk,
        quantization_config=_quantization(placement.quantization),
    )


def sparse_vectors(placement: Placement) -> models.SparseVectorParams:
    """With IDF unless the weights are learned."""
    return models.SparseVectorParams(modifier=None if placement.learned_sparse else models.Modifier.IDF)


MAX_SIM = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
# Token vectors are compared for candidates only: a graph over them would cost much and serve nobody.
NEVER_INDEXED = models.HnswConfigDiff(m=0)


def token_vectors(dimensions: int) -> models.VectorParams:
    """One vector a token, on disk in two bytes a value, compared by MaxSim."""
    return models.VectorParams(
        size=dimensions,
        distance=models.Distance.COSINE,
        multivector_config=MAX_SIM,
        datatype=models.Datatype.FLOAT16,
        hnsw_config=NEVER_INDEXED,
        on_disk=True,
    )


def _quantization(kind: Quantization) -> models.QuantizationConfig | None:
    match kind:
        case Quantization.NONE:
            return None
        case Quantization.SCALAR:
            scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
            return models.ScalarQuantization(scalar=scalar)
        case Quantization.BINARY:
            return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
        case Quantization.PRODUCT:
            product = models.ProductQuantizationConfig(compression=models.CompressionRatio.X16, always_ram=True)
            return models.ProductQuantization(product=product)
