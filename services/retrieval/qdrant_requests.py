"""Queries and filters in the words of a Qdrant server."""

from collections.abc import Sequence

from qdrant_client import models

from services.retrieval import payload
from services.retrieval.store import LEG_LIMIT, RRF_K, Filter, Mode, Query


def requests(tenant: str, query: Query, excluded: Sequence[str]) -> list[models.QueryRequest]:
    """The query whose answer counts comes first; the legs are asked again for their scores."""
    matching = _matching(tenant, query.filter, excluded)
    corpus = models.IdfCorpusParams(corpus=all_of([equals(payload.TENANT_FIELD, tenant)]))
    terms = models.SparseVector(indices=list(query.sparse.indices), values=list(query.sparse.values))
    width = max(LEG_LIMIT, query.limit)
    legs = {
        "dense": (list(query.dense), None),
        "sparse": (terms, models.SearchParams(idf=corpus)),
    }
    if not terms.indices:
        del legs["sparse"]
    if query.mode is not Mode.HYBRID or not terms.indices:
        using = "sparse" if query.mode is Mode.SPARSE else "dense"
        if using not in legs:
            return []
        vector, params = legs[using]
        return [
            models.QueryRequest(
                query=vector, using=using, params=params, filter=matching, limit=query.limit, with_payload=True
            )
        ]
    prefetch = [
        models.Prefetch(query=vector, using=using, params=params, filter=matching, limit=width)
        for using, (vector, params) in legs.items()
    ]
    fusion = models.RrfQuery(rrf=models.Rrf(k=RRF_K))
    return [
        models.QueryRequest(prefetch=prefetch, query=fusion, limit=query.limit, with_payload=True),
        *(
            models.QueryRequest(query=vector, using=using, params=params, filter=matching, limit=width)
            for using, (vector, params) in legs.items()
        ),
    ]


def equals(key: str, value: str) -> models.FieldCondition:
    """The field has this value."""
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def any_of(key: str, values: Sequence[str]) -> models.FieldCondition:
    """The field has one of these values."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def all_of(must: list[models.FieldCondition], must_not: Sequence[models.FieldCondition] = ()) -> models.Filter:
    """All of `must` and none of `must_not`."""
    return models.Filter(must=list(must), must_not=list(must_not))


def _matching(tenant: str, wanted: Filter, excluded: Sequence[str]) -> models.Filter:
    must = [equals(payload.TENANT_FIELD, tenant)]
    if wanted.collections:
        must.append(any_of("collection", wanted.collections))
    if wanted.document_ids:
        must.append(any_of("document_id", wanted.document_ids))
    if wanted.language:
        must.append(equals("language", wanted.language))
    for condition in wanted.conditions:
        must.append(any_of("facets", [payload.facet(condition.key, value) for value in condition.any_of]))
    return all_of(must, [any_of("generation", excluded)] if excluded else [])
