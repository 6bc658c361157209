"""Settings of the retrieval service."""

from pydantic import Field, SecretStr

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
    index_after_chunks: int = Field(
        default=20_000,
        ge=1_000,
        le=1_000_000,
        description="Passages without an HNSW index at which the embedded engine builds it again.",
    )
    embedding_address: str = Field(default="localhost:50051", description="`host:port` of the embedding service.")
    reranking_address: str = Field(default="localhost:50051", description="`host:port` of the reranking service.")
    rerank_candidates: int = Field(default=20, ge=1, le=200, description="Passages that are reranked.")
    rerank_timeout_seconds: float = Field(
        default=0.4, gt=0, le=30, description="Time after which a search goes on without the reranker."
    )
    max_document_chunks: int = Field(default=20_000, ge=1, le=1_000_000, description="Passages of one document.")
    tenants_dir: str = Field(
        default="", description="Folder of the tenants' files, whose collections are created. Empty: none."
    )
