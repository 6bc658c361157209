"""The server's collections of this store: the registry and one for each placement, with all their payload indexes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from qdrant_client import AsyncQdrantClient, models

from services.retrieval.payload import INDEXED_FIELDS, TENANT_FIELD
from services.retrieval.placement import Placement
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.calls import answered
from services.retrieval.qdrant.replication import Replication, Replicator, replication
from services.retrieval.qdrant.rows import Target
from services.retrieval.refusals import check_dimensions
from services.retrieval.store import Distribution
from services.runtime.errors import DependencyFailed, InvalidField

# Goes up whenever points are written in another way.
_FORMAT = 1
# Frequencies of words among the tenant's own passages (IDF corpus) came with it; an older one would ignore the wish.
_OLDEST = (1, 19)
_REGISTRY_KEYWORDS = (
    *("kind", "document_id", "collection", "language", "labels", "editions", "models"),
    *("edition", "generation", "revision"),
)
_KEYWORD = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD)
_TENANT = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
_NUMBER = models.FloatIndexParams(type=models.FloatIndexType.FLOAT)
_STRICT = models.StrictModeConfig(
    enabled=True, unindexed_filtering_retrieve=False, unindexed_filtering_update=False, search_allow_exact=True
)

Indexes = dict[str, models.KeywordIndexParams | models.FloatIndexParams]


class UnusableServer(RuntimeError):
    """The server is too old, was written by another version of sabueso, or lacks a payload index."""


@dataclass(frozen=True)
class _Shape:
    dimensions: int
    token_dimensions: int


class Places:
    """Knows what there is; makes what is needed. All methods raise DependencyFailed."""

    def __init__(
        self, client: AsyncQdrantClient, prefix: str, *, indexed: bool, defaults: Distribution | None = None
    ) -> None:
        """`indexed`: False for the client's memory mode, which has no indexes.

        `defaults`: how the registry is replicated, and all else that does not say it of itself.
        """
        self.client = client
        self.defaults = defaults or Distribution()
        self._replicator = Replicator(client)
        self.indexed = indexed
        self.registry = f"{prefix}registry"
        self._prefix = prefix
        self._shapes: dict[str, _Shape] = {}
        self._indexed_by_us: set[str] = set()

    def name(self, placement: Placement) -> str:
        """The server's name for it."""
        return f"{self._prefix}{placement.name}"

    async def open(self) -> None:
        """Makes the registry if there is none and checks all that is there. Raises UnusableServer."""
        await self._check_version()
        copies = replication(None, self.defaults)
        if not await answered(self.client.collection_exists, self.registry):
            await self._create(self.registry, {}, {}, copies)
        else:
            await self._replicator.adjust(self.registry, copies)
        found = await answered(self.client.get_collection, self.registry)
        if (found.config.metadata or {}).get("format") != _FORMAT:
            raise UnusableServer(
                f"`{self.registry}` on the Qdrant server was written by another version of sabueso: delete the"
                f" collections `{self._prefix}*` there and ingest again, or run the version that wrote them"
            )
        for one in (await answered(self.client.get_collections)).collections:
            if one.name == self.registry or one.name.startswith(f"{self._prefix}chunks-"):
                await self._index(one.name)

    async def _check_version(self) -> None:
        version = (await answered(self.client.info)).version
        found = re.match(r"v?(\d+)\.(\d+)", version)
        if found is None or (int(found[1]), int(found[2])) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise UnusableServer(f"The Qdrant server has version {version}; sabueso needs {oldest} or newer")

    async def dimensions(self, name: str) -> int:
        """Length of the dense vectors; 0 when there is no such place yet."""
        return (await self._shape(name)).dimensions

    async def token_dimensions(self, name: str) -> int:
        """Length of the token vectors; 0 when there are none yet."""
        return (await self._shape(name, of_tokens=True)).token_dimensions

    async def replicate(self, placement: Placement, wanted: Replication) -> None:
        """Gives a place that is there so many copies."""
        await self._replicator.adjust(self.name(placement), wanted)

    async def require(self, target: Target, dimensions: int, token_dimensions: int) -> str:
        """The name of the target's place for such vectors, made if need be. `token_dimensions` 0: none to be written.

        Raises InvalidField when the place has vectors of another length.
        """
        placement = target.placement
        name = self.name(placement)
        if not await self.dimensions(name):
            on_disk = self.defaults.on_disk if placement.on_disk is None else placement.on_disk
            vectors = {asked.DENSE: asked.dense_vectors(placement, dimensions, on_disk)}
            if token_dimensions:
                vectors[asked.TOKENS] = asked.token_vectors(token_dimensions)
            sparse = {asked.SPARSE: asked.sparse_vectors(placement)}
            shards = placement.shard_number or self.defaults.shard_number
            await self._create(name, vectors, sparse, target.replication, shards)
        if name not in self._indexed_by_us:
            # Another replica may have made it a moment ago, and not all of its indexes yet.
            await self._index(name)
        check_dimensions(placement.model, await self.dimensions(name), dimensions)
        if token_dimensions:
            await self._require_tokens(placement, name, token_dimensions)
        return name

    async def _require_tokens(self, placement: Placement, name: str, dimensions: int) -> None:
        known = await self.token_dimensions(name)
        if not known:
            config = models.DenseVectorConfig(
                size=dimensions,
                distance=models.Distance.COSINE,
                multivector_config=asked.MAX_SIM,
                datatype=models.VectorStorageDatatype.FLOAT16,
            )
            await answered(
                self.client.create_vector_name, name, asked.TOKENS, models.DenseVectorNameConfig(dense=config)
            )
            change = models.VectorParamsDiff(hnsw_config=asked.NEVER_INDEXED, on_disk=True)
            await answered(self.client.update_collection, name, vectors_config={asked.TOKENS: change})
            known = await self.token_dimensions(name)
        if known != dimensions:
            raise InvalidField(
                f"`chunk.tokens` has {dimensions} values a token; those of `{placement.model}` have {known}.",
                field="chunk.tokens",
            )

    async def delete_points(self, name: str, must: Sequence[models.Condition]) -> None:
        """Deletes all that meet the conditions."""
        if await self.dimensions(name):
            selector = models.FilterSelector(filter=asked.all_of(must))
            await answered(self.client.delete, name, selector, wait=True)

    async def _shape(self, name: str, *, of_tokens: bool = False) -> _Shape:
        known = self._shapes.get(name)
        if known is None or (of_tokens and not known.token_dimensions):
            known = await self._read_shape(name)
            if known.dimensions:
                self._shapes[name] = known
        return known

    async def _read_shape(self, name: str) -> _Shape:
        if not await answered(self.client.collection_exists, name):
            return _Shape(0, 0)
        vectors = (await answered(self.client.get_collection, name)).config.params.vectors
        sizes = {key: one.size for key, one in vectors.items()} if isinstance(vectors, dict) else {}
        return _Shape(sizes.get(asked.DENSE, 0), sizes.get(asked.TOKENS, 0))

    async def _create(
        self,
        name: str,
        vectors: dict[str, models.VectorParams],
        sparse: dict[str, models.SparseVectorParams],
        copies: Replication,
        shard_number: int = 0,
    ) -> None:
        try:
            await answered(
                self.client.create_collection,
                name,
                vectors_config=vectors,
                sparse_vectors_config=sparse,
                shard_number=shard_number or None,
                replication_factor=copies.factor or None,
                write_consistency_factor=copies.acknowledging or None,
                strict_mode_config=_STRICT,
                metadata={"format": _FORMAT},
            )
        except DependencyFailed:
            # Another replica was faster, or our first attempt arrived after all.
            if not await answered(self.client.collection_exists, name):
                raise
        await self._index(name)

    async def _index(self, name: str) -> None:
        """Makes the payload indexes that are missing. Raises UnusableServer when one cannot be made."""
        self._indexed_by_us.add(name)
        if not self.indexed:
            return
        for field, params in (await self._missing_indexes(name)).items():
            try:
                await answered(self.client.create_payload_index, name, field, params, wait=True)
            except DependencyFailed as error:
                raise UnusableServer(f"`{name}` on the Qdrant server has no payload index for {field}") from error
        missing = sorted(await self._missing_indexes(name))
        if missing:
            raise UnusableServer(f"`{name}` on the Qdrant server has no payload index for {', '.join(missing)}")

    async def _missing_indexes(self, name: str) -> Indexes:
        there = (await answered(self.client.get_collection, name)).payload_schema
        wanted: Indexes = {TENANT_FIELD: _TENANT}
        if name == self.registry:
            wanted |= dict.fromkeys(_REGISTRY_KEYWORDS, _KEYWORD) | {"updated": _NUMBER}
        else:
            wanted |= dict.fromkeys(INDEXED_FIELDS, _KEYWORD)
        return {field: params for field, params in wanted.items() if field not in there}
