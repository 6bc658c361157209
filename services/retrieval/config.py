"""Settings of the retrieval service."""

from typing import Literal

from pydantic import Field, SecretStr

from services.retrieval.ranking import Fusion
from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """Where passages are kept and how they are searched."""

    vector_store: str = Field(
        default="edge:.sabueso/vectors",
        pattern=r"^(edge:.+|qdrant:https?://.+|memory:)$",
        description="`edge:<folder>` keeps passages in Qdrant's engine in this process (one replica), `qdrant:<url>` on"
        " a server (several replicas), `memory:` nowhere.",
    )
    qdrant_api_key: SecretStr = Field(default=SecretStr(""), description="Key of the Qdrant server, if it wants one.")
    store_timeout_seconds: float = Field(default=10, gt=0, le=300, description="Time a Qdrant server gets to answer.")
    qdrant_shard_number: int = Field(
        default=0, ge=0, le=256, description="Shards of a new place for passages on a Qdrant cluster; 0: as it has it."
    )
    qdrant_replication_factor: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Copies of each shard, of the registry too, unless a collection of a tenant's file says otherwise;"
        " 0: as the cluster has it. More of them are made of what is there.",
    )
    qdrant_write_consistency_factor: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Copies that must have a write before it is acknowledged; 0: the majority.",
    )
    qdrant_on_disk: bool = Field(
        default=False, description="Vectors and graphs of new places are read from disk, for more passages than memory."
    )
    index_after_chunks: int = Field(
        default=20_000,
        ge=1_000,
        le=1_000_000,
        description="Passages without an HNSW index at which the embedded engine builds it again.",
    )
    embedding_address: str = Field(
        default="localhost:50051",
        description="`host:port` of the embedding service. Several, separated by commas, serve collections that still"
        " have another model; the first one is for what is new.",
    )
    reranking_address: str = Field(default="localhost:50051", description="`host:port` of the reranking service.")
    rerank: Literal["late", "service"] = Field(
        default="late",
        description="`late`: late interaction over the token vectors in the store; `service`: texts go to the reranking"
        " service, for a cross-encoder.",
    )
    rerank_candidates: int = Field(default=40, ge=1, le=200, description="Passages that are reranked.")
    rerank_timeout_seconds: float = Field(
        default=0.4, gt=0, le=30, description="Time after which a search goes on without the reranker."
    )
    fusion: Fusion = Field(
        default=Fusion.CALIBRATED,
        description="How the legs of a hybrid search are joined unless the caller says: `calibrated`, `rrf` or `dbsf`.",
    )
    max_document_chunks: int = Field(default=20_000, ge=1, le=1_000_000, description="Passages of one document.")
    tenants_dir: str = Field(
        default="", description="Folder of the tenants' files, whose collections are created. Empty: none."
    )
