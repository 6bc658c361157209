"""Qdrant's gRPC interface on loopback, over the client's own memory mode: each request is converted there and back.

Payload indexes are kept, and a filter on a field without one is refused, as a server in strict mode does. A method can
be made to fail after it was applied, as it does when an answer gets lost.
"""

import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import grpc
from qdrant_client import AsyncQdrantClient, models
from qdrant_client import grpc as wire
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

VERSION = "1.20.0"
# Awaited with method and request before it is served: what happens there comes in between.
Interruption = Callable[[str, Any], Awaitable[None]]


class LoopbackQdrant(wire.PointsServicer, wire.CollectionsServicer, wire.QdrantServicer):
    """What the store uses of a server."""

    def __init__(self, version: str = VERSION) -> None:
        """`refused_indexes` are fields that get no payload index.

        `lost_answers` are statuses, and `replayed_answers` earlier answers, in place of the next ones of a method.
        """
        self.memory = AsyncQdrantClient(":memory:")
        self.version = version
        self.port = 0
        self.calls: Counter[str] = Counter()
        self.request_bytes: Counter[str] = Counter()
        self.replayed_answers: dict[str, list[Any]] = defaultdict(list)
        self.lost_answers: dict[str, list[grpc.StatusCode]] = defaultdict(list)
        self.indexes: dict[str, dict[str, models.PayloadIndexInfo]] = defaultdict(dict)
        self.refused_indexes: set[str] = set()
        self.settings: dict[str, wire.CreateCollection] = {}
        # Of a cluster: what is said of copies, and the nodes that hold each shard.
        self.parameters: dict[str, dict[str, int]] = defaultdict(dict)
        self.holders: dict[str, dict[int, list[int]]] = defaultdict(dict)
        self.copied: list[wire.ReplicateShard] = []
        self.interruption: Interruption | None = None

    def connect(self, url: str = "http://127.0.0.1:1", **options: Any) -> AsyncQdrantClient:
        """A client of its own, as production makes it. `url`: of the HTTP interface, for what only that has."""
        return AsyncQdrantClient(
            url=url,
            grpc_port=self.port,
            prefer_grpc=True,
            check_compatibility=False,
            **{"timeout": 10, **options},
        )

    async def HealthCheck(self, request, context):
        return wire.HealthCheckReply(title="qdrant", version=self.version)

    async def Create(self, request, context):
        self.settings[request.collection_name] = request
        self._note(request.collection_name, request)
        vectors = {
            name: GrpcToRest.convert_vector_params(one) for name, one in request.vectors_config.params_map.map.items()
        }
        sparse = {
            name: GrpcToRest.convert_sparse_vector_params(one)
            for name, one in request.sparse_vectors_config.map.items()
        }
        done = await self.memory.create_collection(
            request.collection_name,
            vectors_config=vectors,
            sparse_vectors_config=sparse,
            metadata=GrpcToRest.convert_payload(request.metadata),
        )
        return wire.CollectionOperationResponse(result=done)

    async def Update(self, request, context):
        self._note(request.collection_name, request.params)
        changed = {
            name: GrpcToRest.convert_vector_params_diff(one)
            for name, one in request.vectors_config.params_map.map.items()
        }
        return wire.CollectionOperationResponse(
            result=await self.memory.update_collection(request.collection_name, vectors_config=changed)
        )

    async def Delete(self, request, context):
        if isinstance(request, wire.DeleteCollection):
            return wire.CollectionOperationResponse(result=await self.memory.delete_collection(request.collection_name))
        selector = GrpcToRest.convert_points_selector(request.points)
        self._check_selector(request.collection_name, selector)
        return _done(await self.memory.delete(request.collection_name, selector))

    async def List(self, request, context):
        names = [one.name for one in (await self.memory.get_collections()).collections]
        return wire.ListCollectionsResponse(collections=[wire.CollectionDescription(name=name) for name in names])

    async def CollectionExists(self, request, context):
        there = await self.memory.collection_exists(request.collection_name)
        return wire.CollectionExistsResponse(result=wire.CollectionExists(exists=there))

    async def Get(self, request, context):
        name = request.collection_name
        if isinstance(request, wire.GetCollectionInfoRequest):
            found = await self.memory.get_collection(name)
            found.payload_schema = dict(self.indexes[name])
            found.config.params = found.config.params.model_copy(update=self.parameters[name])
            return wire.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(found))
        records = await self.memory.retrieve(
            name,
            [GrpcToRest.convert_point_id(id) for id in request.ids],
            with_payload=GrpcToRest.convert_with_payload_interface(request.with_payload),
        )
        return wire.GetResponse(result=[RestToGrpc.convert_record(record) for record in records])

    def _note(self, name: str, said: Any) -> None:
        for field in ("replication_factor", "write_consistency_factor"):
            if said.HasField(field):
                self.parameters[name][field] = getattr(said, field)

    async def CollectionClusterInfo(self, request, context):
        holders = self.holders[request.collection_name]
        active = wire.ReplicaState.Active
        return wire.CollectionClusterInfoResponse(
            peer_id=0,
            shard_count=len(holders),
            local_shards=[wire.LocalShardInfo(shard_id=one, state=active) for one, on in holders.items() if 0 in on],
            remote_shards=[
                wire.RemoteShardInfo(shard_id=one, peer_id=peer, state=active)
                for one, on in holders.items()
                for peer in on
                if peer
            ],
        )

    async def UpdateCollectionClusterSetup(self, request, context):
        copy = request.replicate_shard
        holding = self.holders[request.collection_name][copy.shard_id]
        if copy.to_peer_id in holding or copy.from_peer_id not in holding:
            raise ValueError("there is one, or there is none to copy")
        holding.append(copy.to_peer_id)
        self.copied.append(copy)
        return wire.UpdateCollectionClusterSetupResponse(result=True)

    async def CreateFieldIndex(self, request, context):
        if request.field_name in self.refused_indexes:
            raise ValueError("no room for an index")
        params = GrpcToRest.convert_payload_schema_params(request.field_index_params)
        index = models.PayloadIndexInfo(data_type=params.type.value, params=params, points=0)
        self.indexes[request.collection_name][request.field_name] = index
        return _done(models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED))

    async def CreateVectorName(self, request, context):
        wanted = request.dense_config
        config = models.DenseVectorConfig(
            size=wanted.size,
            distance=GrpcToRest.convert_distance(wanted.distance),
            multivector_config=GrpcToRest.convert_multivector_config(wanted.multivector_config),
        )
        return _done(
            await self.memory.create_vector_name(
                request.collection_name, request.vector_name, models.DenseVectorNameConfig(dense=config)
            )
        )

    async def Upsert(self, request, context):
        points = [GrpcToRest.convert_point_struct(point) for point in request.points]
        mode = GrpcToRest.convert_update_mode(request.update_mode) if request.HasField("update_mode") else None
        return _done(await self.memory.upsert(request.collection_name, points, update_mode=mode))

    async def OverwritePayload(self, request, context):
        selector = GrpcToRest.convert_points_selector(request.points_selector)
        self._check_selector(request.collection_name, selector)
        fields = GrpcToRest.convert_payload(request.payload)
        return _done(await self.memory.overwrite_payload(request.collection_name, fields, selector))

    async def Scroll(self, request, context):
        order = GrpcToRest.convert_order_by(request.order_by) if request.HasField("order_by") else None
        records, offset = await self.memory.scroll(
            request.collection_name,
            self._filter(request.collection_name, request.filter),
            limit=request.limit,
            offset=GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None,
            order_by=order,
            with_payload=GrpcToRest.convert_with_payload_interface(request.with_payload),
        )
        if order is not None:
            self._check(request.collection_name, order.key)
        return wire.ScrollResponse(
            result=[RestToGrpc.convert_record(record) for record in records],
            next_page_offset=None if offset is None else RestToGrpc.convert_extended_point_id(offset),
        )

    async def Count(self, request, context):
        matching = self._filter(request.collection_name, request.filter)
        found = await self.memory.count(request.collection_name, matching, exact=request.exact)
        return wire.CountResponse(result=RestToGrpc.convert_count_result(found))

    async def Facet(self, request, context):
        self._check(request.collection_name, request.key)
        matching = self._filter(request.collection_name, request.filter)
        found = await self.memory.facet(
            request.collection_name, request.key, matching, limit=request.limit, exact=request.exact
        )
        return wire.FacetResponse(hits=[RestToGrpc.convert_facet_value_hit(hit) for hit in found.hits])

    async def QueryBatch(self, request, context):
        answers = [await self._query(request.collection_name, one) for one in request.query_points]
        return wire.QueryBatchResponse(result=[wire.BatchResult(result=points) for points in answers])

    async def Query(self, request, context):
        return wire.QueryResponse(result=await self._query(request.collection_name, request))

    async def _query(self, name: str, request: wire.QueryPoints) -> list[wire.ScoredPoint]:
        wanted = GrpcToRest.convert_query_points(request)
        self._check_filter(name, wanted.filter)
        idf = wanted.params.idf if wanted.params else None
        if isinstance(idf, models.IdfCorpusParams):
            self._check_filter(name, idf.corpus)
        found = await self.memory.query_points(
            name,
            query=wanted.query,
            using=wanted.using,
            query_filter=wanted.filter,
            # Memory mode compares everything and warns of any other wish.
            search_params=models.SearchParams(idf=idf) if idf else None,
            limit=wanted.limit,
            with_payload=wanted.with_payload,
            with_vectors=wanted.with_vector,
        )
        return [RestToGrpc.convert_scored_point(point) for point in found.points]

    def _filter(self, name: str, matching: wire.Filter) -> models.Filter:
        converted = GrpcToRest.convert_filter(matching)
        self._check_filter(name, converted)
        return converted

    def _check_selector(self, name: str, selector: models.PointsSelector) -> None:
        if isinstance(selector, models.FilterSelector):
            self._check_filter(name, selector.filter)

    def _check_filter(self, name: str, matching: models.Filter | None) -> None:
        parts = [matching.must, matching.must_not, matching.should] if matching else []
        for condition in [one for part in parts for one in part or []]:
            if isinstance(condition, models.FieldCondition):
                self._check(name, condition.key)

    def _check(self, name: str, key: str) -> None:
        if key not in self.indexes[name]:
            raise ValueError(f"strict mode: `{key}` has no index")


class _Observed(grpc.aio.ServerInterceptor):
    """Counts, and turns what memory mode raises into the server's statuses."""

    def __init__(self, server: LoopbackQdrant) -> None:
        self._server = server

    async def intercept_service(self, continuation, details):
        inner = await continuation(details)
        method = details.method.rpartition("/")[2]

        async def serve(request, context):
            self._server.calls[method] += 1
            self._server.request_bytes[method] = max(self._server.request_bytes[method], request.ByteSize())
            if self._server.interruption is not None:
                await self._server.interruption(method, request)
            try:
                answer = await inner.unary_unary(request, context)
            except (ValueError, KeyError) as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            if self._server.replayed_answers[method]:
                return self._server.replayed_answers[method].pop(0)
            if self._server.lost_answers[method]:
                await context.abort(self._server.lost_answers[method].pop(0), "the answer was lost")
            return answer

        return grpc.unary_unary_rpc_method_handler(
            serve, request_deserializer=inner.request_deserializer, response_serializer=inner.response_serializer
        )


def _done(result: models.UpdateResult) -> wire.PointsOperationResponse:
    return wire.PointsOperationResponse(result=RestToGrpc.convert_update_result(result), time=0.0)


@contextlib.asynccontextmanager
async def running(version: str = VERSION) -> AsyncGenerator[LoopbackQdrant]:
    """A server on a port of its own."""
    servicer = LoopbackQdrant(version)
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.aio.server(interceptors=[_Observed(servicer)], options=options)
    wire.add_PointsServicer_to_server(servicer, server)
    wire.add_CollectionsServicer_to_server(servicer, server)
    wire.add_QdrantServicer_to_server(servicer, server)
    servicer.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield servicer
    finally:
        await server.stop(None)
        await servicer.memory.close()
