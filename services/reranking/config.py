"""Settings of the reranking service."""

from pydantic import Field

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """Which scorer, and how much of the machine it may use."""

    reranking_model: str = Field(
        default="maxsim",
        pattern=r"^(maxsim|onnx:.+|overlap)$",
        description="`maxsim` (late interaction over token vectors), `onnx:<folder or hub id>` (a cross-encoder) or "
        "`overlap` (shared words, for tests).",
    )
    embedding_address: str = Field(
        default="localhost:50051", description="The embedding service, for what comes to `maxsim` without vectors."
    )
    embedding_timeout_seconds: float = Field(
        default=10, gt=0, le=600, description="Time for one call to the embedding service."
    )
    max_tokens: int = Field(
        default=512, ge=16, le=8192, description="The cross-encoder's window in tokens, for query and text together."
    )
    threads: int = Field(default=2, ge=1, le=64, description="Threads of one run of a cross-encoder.")
    max_batch_items: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Pairs in one run of a cross-encoder. On a processor more are no faster, and the scores of an int8 "
        "model then depend on their neighbours.",
    )
    max_waiting_candidates: int = Field(default=2000, ge=200, description="Candidates that may wait to be scored.")
