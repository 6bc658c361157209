"""Settings of the reranking service."""

from pydantic import Field, SecretStr

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """Which scorer, and how much of the machine it may use."""

    reranking_model: str = Field(
        default="maxsim",
        pattern=r"^(maxsim|onnx:.+|(tei|cohere):https?://.+|overlap)$",
        description="`maxsim` (late interaction over token vectors), `onnx:<folder or hub id>` (a cross-encoder), "
        "`tei:<url>`, `cohere:<url>` (Infinity, vLLM, llama.cpp) or `overlap` (shared words, for tests).",
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
    threads: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Threads of one run of a cross-encoder. A second run gains more than a second thread.",
    )
    parallel_runs: int = Field(default=2, ge=1, le=64, description="Runs of a cross-encoder at a time.")
    max_batch_items: int = Field(
        default=0,
        ge=0,
        le=256,
        description="Pairs in one run of a cross-encoder; 0: 1 on a processor, where more are no faster, 32 on a GPU.",
    )
    max_batch_tokens: int = Field(
        default=16_384, ge=16, le=262_144, description="Tokens in one run of a cross-encoder, padding included."
    )
    remote_model: str = Field(default="", description="Model name for `cohere:`; empty where the server holds one.")
    remote_api_key: SecretStr = Field(default=SecretStr(""), description="Bearer key for `tei:` and `cohere:`.")
    remote_timeout_seconds: float = Field(
        default=10, gt=0, le=600, description="Time for one request to `tei:` or `cohere:`, repetitions included."
    )
    max_waiting_candidates: int = Field(default=2000, ge=200, description="Candidates that may wait to be scored.")
