"""Requests of the Qdrant store: each is one that the client can send over gRPC, and none loses anything on the way."""

import pytest
from qdrant_client import models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from services.retrieval.payload import INDEXED_FIELDS, TENANT_FIELD
from services.retrieval.placement import Placement
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.requests import Requests, Scope
from services.retrieval.store import Condition, Filter, Mode, Quantization, Query, Reader, SparseTerms

EVERYTHING = Filter(["docs"], ["d1", "d2"], "es", [Condition("year", ["2024", "2025"])])


def requests(mode=Mode.HYBRID, reader=None, excluded=(), learned=False, indexed=True, rescore=True, **query):
    scope = Scope(Placement("model", learned), ["e1"], ["e1", "e2"], 64, 2.5, rescore)
    wanted = {"limit": 7, "filter": EVERYTHING, "with_vectors": True, **query}
    asked_for = Query(mode, "model", [0.5, 0.25], SparseTerms([3, 9], [1.0, 0.5]), **wanted)
    return Requests(reader or Reader("acme", ("hr",)), asked_for, scope, list(excluded), indexed)


def there_and_back(request):
    return GrpcToRest.convert_query_points(RestToGrpc.convert_query_request(request, "chunks"))


def keys(matching):
    conditions = [*(matching.must or []), *(matching.must_not or [])]
    return {condition.key for condition in conditions if isinstance(condition, models.FieldCondition)}


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("excluded", [(), ("g1", "g2")])
def test_every_query_is_the_same_after_grpc(mode, learned, excluded):
    one = requests(mode, learned=learned, excluded=excluded)
    sent = [*one.legs().values(), one.rest("dense", ["00000000-0000-0000-0000-000000000001"])]
    sent.append(one.rest("sparse", ["00000000-0000-0000-0000-000000000001"]))
    for request in sent:
        received = there_and_back(request)
        assert received.filter.must == request.filter.must
        assert received.filter.must_not == request.filter.must_not
        assert (received.params.idf is None) == (request.params.idf is None)
        if request.params.idf is not None:
            assert received.params.idf.corpus.must == request.params.idf.corpus.must
        assert received.params.hnsw_ef == request.params.hnsw_ef
        assert received.params.exact == request.params.exact
        assert received.params.quantization == request.params.quantization
        assert received.params.acorn == request.params.acorn
        assert (received.limit, received.using) == (request.limit, request.using)
        assert bool(received.with_vector) == bool(request.with_vector)


@pytest.mark.parametrize("mode", list(Mode))
def test_every_field_that_is_filtered_by_has_a_payload_index(mode):
    one = requests(mode, excluded=["g"])
    for request in one.legs().values():
        assert keys(request.filter) <= {TENANT_FIELD, *INDEXED_FIELDS}
        idf = request.params.idf
        if idf is not None:
            assert keys(idf.corpus) <= {TENANT_FIELD, *INDEXED_FIELDS}


def test_every_request_names_the_tenant():
    one = requests()
    for request in [*one.legs().values(), one.rest("dense", ["1"]), one.rest("sparse", ["1"])]:
        assert asked.equals(TENANT_FIELD, "acme") in request.filter.must


def test_labels_are_asked_for_inside_the_search_unless_the_reader_sees_all():
    for request in requests().legs().values():
        assert asked.any_of("labels", ["*", "hr"]) in request.filter.must
    for request in requests(reader=Reader("acme", ("*",))).legs().values():
        assert "labels" not in keys(request.filter)


def test_words_are_counted_in_all_of_the_tenants_passages_of_the_place():
    leg = requests().legs()["sparse"]
    corpus = asked.all_of([asked.equals(TENANT_FIELD, "acme"), asked.any_of("edition", ["e1", "e2"])])
    assert leg.params.idf == models.IdfCorpusParams(corpus=corpus)
    assert requests(learned=True).legs()["sparse"].params.idf is None


def test_passages_are_read_once():
    legs = requests().legs()
    assert "text" in legs["dense"].with_payload
    assert legs["sparse"].with_payload == ["document_id", "generation"]
    assert "text" in requests(Mode.SPARSE).legs()["sparse"].with_payload
    assert requests().rest("sparse", ["1"]).with_payload is False


def test_a_query_without_words_has_no_sparse_leg():
    one = Query(Mode.HYBRID, "model", [0.5, 0.25], SparseTerms([], []))
    scope = Scope(Placement("model"), ["e"], ["e"], 64, 2.0, True)
    assert set(Requests(Reader("acme"), one, scope, [], True).legs()) == {"dense"}


def test_memory_mode_is_asked_for_nothing_that_it_would_warn_of():
    one = requests(indexed=False)
    dense, sparse = one.legs()["dense"], one.legs()["sparse"]
    assert dense.params is None
    assert one.rest("dense", ["1"]).params is None
    assert (sparse.params.exact, sparse.params.hnsw_ef) == (False, None)


@pytest.mark.parametrize("quantization", list(Quantization))
def test_a_places_vectors_are_the_same_after_grpc(quantization):
    place = Placement("model", False, 24, 200, quantization)
    for vectors in (asked.dense_vectors(place, 384), asked.token_vectors(384)):
        received = GrpcToRest.convert_vector_params(RestToGrpc.convert_vector_params(vectors))
        assert type(received.quantization_config) is type(vectors.quantization_config)
        without = {"quantization_config": None}  # its quantile travels as float32
        assert received.model_copy(update=without) == vectors.model_copy(update=without)
    sparse = GrpcToRest.convert_sparse_vector_params(
        RestToGrpc.convert_sparse_vector_params(asked.sparse_vectors(place))
    )
    assert sparse.modifier == models.Modifier.IDF
    assert asked.sparse_vectors(Placement("model", True)).modifier is None


def test_token_vectors_are_compared_by_max_sim_and_never_indexed():
    vectors = asked.token_vectors(384)
    assert vectors.multivector_config.comparator == models.MultiVectorComparator.MAX_SIM
    assert (vectors.hnsw_config.m, vectors.on_disk, vectors.datatype) == (0, True, models.Datatype.FLOAT16)
