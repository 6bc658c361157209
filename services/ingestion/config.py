"""Settings of the ingestion service."""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from services.ingestion.cutting.chunking import Sizes
from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """What an operator may want to change about ingestion."""

    embedding_address: str = Field(
        default="localhost:50051",
        min_length=1,
        description="`host:port` of the embedding service; others, after commas, serve collections of other models.",
    )
    retrieval_address: str = Field(default="localhost:50051", description="`host:port` of the retrieval service.")
    tool_cache_address: str = Field(
        default="",
        description="`host:port` of the tool cache, which forgets searches when a document is stored. Empty: it has "
        "none, and they age out.",
    )
    valkey_url: SecretStr = Field(
        default=SecretStr("redis://localhost:6379"), description="Valkey or Redis that holds the jobs; it must persist."
    )
    tenants_dir: Path | None = Field(
        default=None,
        description="Folder of the tenants' files, for their policy about documents that give orders to models. "
        "None: they are marked, whoever's they are.",
    )
    spool_dir: Path = Field(
        default=Path(".sabueso/spool"),
        description="Folder for files until they are stored; on a durable disk, and shared by all replicas.",
    )
    max_document_bytes: int = Field(
        default=50 * 2**20, ge=1, le=2**30, description="Largest document that is accepted, in bytes."
    )
    spool_max_bytes: int = Field(
        default=6 * 2**30, ge=2**20, le=2**50, description="Most that waits in the spool, in bytes; more is refused."
    )
    vector_cache_bytes: int = Field(
        default=2 * 2**30, ge=0, le=2**50, description="Vectors kept so that no text is embedded twice; 0 keeps none."
    )
    max_queued_jobs: int = Field(default=1000, ge=1, le=100_000, description="Most unfinished jobs; more are refused.")
    max_queued_jobs_per_tenant: int = Field(
        # A list of jobs has at most 1000 entries: all unfinished ones of a tenant are then in it.
        default=500,
        ge=1,
        le=1000,
        description="Most unfinished jobs of one tenant; more of it are refused.",
    )
    workers: int = Field(default=1, ge=1, le=32, description="Documents that are worked on at the same time.")
    parse_timeout_seconds: float = Field(default=120, ge=1, le=3600, description="Time to read one file.")
    parse_memory_bytes: int = Field(
        default=448 * 2**20, ge=2**28, le=2**36, description="Memory (address space) to read one file, in bytes."
    )
    chunk_min_tokens: int = Field(
        default=200, ge=1, le=8192, description="Sections smaller than this join their neighbours under one heading."
    )
    chunk_max_tokens: int = Field(default=350, ge=16, le=8192, description="Largest chunk, in tokens of the model.")
    chunk_overlap_tokens: int = Field(
        default=40, ge=0, le=4096, description="Repeated between chunks where a paragraph is too long for one."
    )
    token_vector_chunks: int = Field(
        default=2000, ge=0, le=1_000_000, description="Documents of more chunks are stored without token vectors."
    )
    max_document_chunks: int = Field(
        default=20_000, ge=1, le=1_000_000, description="Passages of one document; as in retrieval."
    )
    job_retention_days: float = Field(default=30, gt=0, le=3650, description="How long finished jobs are remembered.")

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        Sizes(self.chunk_min_tokens, self.chunk_max_tokens, self.chunk_overlap_tokens)
        return self

    @property
    def embedding_addresses(self) -> list[str]:
        """Of each embedding service, the default one first."""
        return [address.strip() for address in self.embedding_address.split(",")]

    @property
    def sizes(self) -> Sizes:
        """Sizes of chunks."""
        return Sizes(self.chunk_min_tokens, self.chunk_max_tokens, self.chunk_overlap_tokens)
