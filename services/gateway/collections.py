"""/v1/collections: what a tenant's documents are sorted into, how they are cut and indexed."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from services.gateway.admission import caller_of
from services.gateway.clients import CALL_SECONDS, Clients, answer_of
from services.gateway.results_cache import forget_searches
from services.runtime import errors


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Chunking(_Part):
    """How documents are cut, in tokens of the embedding model. 0 means the server's default."""

    strategy: Literal["structure", "fixed", "sentences", "recursive", "semantic", "code"] = "structure"
    max_tokens: int = Field(default=0, ge=0, le=8192)
    min_tokens: int = Field(default=0, ge=0, le=8192)
    overlap_tokens: int | None = Field(default=None, ge=0, le=4096)
    parent_tokens: int = Field(default=0, ge=0, le=8192, description="What is read in place of what is found; 0: off.")


class Index(_Part):
    """How vectors are indexed. 0 means the server's default."""

    hnsw_m: int = Field(default=0, ge=0, le=64)
    hnsw_ef_construct: int = Field(default=0, ge=0, le=1024)
    hnsw_ef: int = Field(default=0, ge=0, le=1024)
    quantization: Literal["none", "scalar", "binary", "product"] = "none"
    oversampling: float = Field(default=0, ge=0, le=10)
    rescore: bool = True


class CollectionRequest(_Part):
    """What a collection holds, which the model reads when it chooses where to look, and how it is kept.

    What is missing stays as it is. Cutting holds for documents that come later; another index needs an empty collection
    or a migration.
    """

    description: str | None = Field(default=None, max_length=4000)
    language: str | None = None
    chunking: Chunking | None = None
    index: Index | None = None


class MigrateRequest(_Part):
    """The index that the collection gets; the one that it has when it is missing."""

    index: Index | None = None


class Collections:
    """The endpoints of collections."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def list_all(
        self, request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 1000, after: str = ""
    ) -> JSONResponse:
        """Collections by name, a page at a time; `after` is the last name of the page before."""
        found = [one for one in await self._all(request) if one.name > after]
        page, has_more = found[:limit], len(found) > limit
        return JSONResponse(
            {
                "object": "list",
                "data": [_fields(one) for one in page],
                "has_more": has_more,
                "after": page[-1].name if has_more else None,
            }
        )

    async def get_one(self, request: Request, name: str) -> JSONResponse:
        """One collection."""
        return JSONResponse(_fields(await self._one(request, name)))

    async def put(self, request: Request, name: str, asked: CollectionRequest) -> JSONResponse:
        """Creates a collection, or changes its description and settings."""
        caller_of(request).require("documents")
        try:
            known = await self._one(request, name)
        except errors.NotFound:
            known = pb.Collection()
        wanted = pb.Collection(
            name=name,
            description=known.description if asked.description is None else asked.description,
            language=known.language if asked.language is None else asked.language,
            chunking=known.chunking if asked.chunking is None else _chunking(asked.chunking),
            index=known.index if asked.index is None else _index(asked.index),
        )
        call = self._clients.retrieval.PutCollection(pb.PutCollectionRequest(collection=wanted), timeout=CALL_SECONDS)
        stored = (await answer_of("retrieval", call)).collection
        await forget_searches(self._clients, name)
        return JSONResponse(_fields(stored))

    async def delete(self, request: Request, name: str) -> JSONResponse:
        """Deletes a collection with all its documents."""
        caller_of(request).require("documents")
        call = self._clients.retrieval.DeleteCollection(pb.DeleteCollectionRequest(name=name), timeout=CALL_SECONDS)
        count = (await answer_of("retrieval", call)).document_count
        await forget_searches(self._clients, name)
        return JSONResponse({"name": name, "object": "collection", "deleted": True, "document_count": count})

    async def migrate(self, request: Request, name: str, asked: MigrateRequest | None = None) -> JSONResponse:
        """Embeds a collection anew with the current model in the background; searches go on meanwhile."""
        wanted = pb.MigrateCollectionRequest(name=name)
        if asked is not None and asked.index is not None:
            wanted.index.CopyFrom(_index(asked.index))
        return await self._migrate(request, wanted, 202)

    async def cancel_migration(self, request: Request, name: str) -> JSONResponse:
        """Stops a migration; searches keep the old vectors."""
        return await self._migrate(request, pb.MigrateCollectionRequest(name=name, cancel=True), 200)

    async def _migrate(self, request: Request, wanted: pb.MigrateCollectionRequest, status: int) -> JSONResponse:
        caller_of(request).require("documents")
        call = self._clients.retrieval.MigrateCollection(wanted, timeout=CALL_SECONDS)
        return JSONResponse(_fields((await answer_of("retrieval", call)).collection), status)

    async def _one(self, request: Request, name: str) -> pb.Collection:
        for one in await self._all(request):
            if one.name == name:
                return one
        raise errors.NotFound(f"There is no collection `{name[:100]}`.")

    async def _all(self, request: Request) -> list[pb.Collection]:
        caller_of(request).require("documents")
        call = self._clients.retrieval.ListCollections(pb.ListCollectionsRequest(), timeout=CALL_SECONDS)
        return list((await answer_of("retrieval", call)).collections)


def _chunking(cut: Chunking) -> pb.Chunking:
    return pb.Chunking(
        strategy=pb.ChunkingStrategy.Value(f"CHUNKING_STRATEGY_{cut.strategy.upper()}"),
        max_tokens=cut.max_tokens,
        min_tokens=cut.min_tokens,
        overlap_tokens=cut.overlap_tokens,
        parent_tokens=cut.parent_tokens,
    )


def _index(index: Index) -> pb.Index:
    kind = "UNSPECIFIED" if index.quantization == "none" else index.quantization.upper()
    return pb.Index(
        hnsw_m=index.hnsw_m,
        hnsw_ef_construct=index.hnsw_ef_construct,
        hnsw_ef=index.hnsw_ef,
        quantization=pb.Quantization.Value(f"QUANTIZATION_{kind}"),
        oversampling=index.oversampling,
        skip_rescore=not index.rescore,
    )


def _fields(collection: pb.Collection) -> dict[str, Any]:
    """A collection as callers see it."""
    cut, index = collection.chunking, collection.index
    quantization = pb.Quantization.Name(index.quantization).removeprefix("QUANTIZATION_").lower()
    return {
        "name": collection.name,
        "object": "collection",
        "description": collection.description,
        "language": collection.language,
        "document_count": collection.document_count,
        "embedding_model": collection.embedding_model or None,
        "chunking": {
            "strategy": pb.ChunkingStrategy.Name(cut.strategy).removeprefix("CHUNKING_STRATEGY_").lower(),
            "max_tokens": cut.max_tokens,
            "min_tokens": cut.min_tokens,
            "overlap_tokens": cut.overlap_tokens if cut.HasField("overlap_tokens") else None,
            "parent_tokens": cut.parent_tokens,
        },
        "index": {
            "hnsw_m": index.hnsw_m,
            "hnsw_ef_construct": index.hnsw_ef_construct,
            "hnsw_ef": index.hnsw_ef,
            "quantization": "none" if quantization == "unspecified" else quantization,
            "oversampling": round(index.oversampling, 3),
            "rescore": not index.skip_rescore,
        },
        "migration": _migration(collection),
        "differs": collection.differs or None,
    }


def _migration(collection: pb.Collection) -> dict[str, Any] | None:
    if not collection.HasField("migration"):
        return None
    migration = collection.migration
    return {
        "state": pb.MigrationState.Name(migration.state).removeprefix("MIGRATION_STATE_").lower(),
        "embedding_model": migration.embedding_model,
        "done_count": migration.done_count,
        "total_count": migration.total_count,
        "reason": migration.reason or None,
    }
