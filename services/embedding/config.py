"""Settings of the embedding service."""

from pydantic import Field, SecretStr

from services.runtime.settings import ServerSettings

DEFAULT_MODEL_FOLDER = ".sabueso/models/multilingual-e5-small"


class Settings(ServerSettings):
    """Which model, and how much of the machine it may use."""

    embedding_model: str = Field(
        default=f"onnx:{DEFAULT_MODEL_FOLDER}",
        pattern=r"^(onnx:.+|openai:https?://.+|hash:[1-9]\d{0,3})$",
        description="`onnx:<folder or hub id>`, `openai:<url>` (TEI, vLLM) or `hash:<dimensions>` (for tests).",
    )
    query_prefix: str = Field(default="query: ", description="Put before a search; e5's by default.")
    document_prefix: str = Field(default="passage: ", description="Put before a passage; e5's by default.")
    max_tokens: int = Field(
        default=512, ge=16, le=8192, description="The model's window in tokens; what is longer is cut and reported."
    )
    embedding_languages: str = Field(
        default="",
        pattern=r"^([a-z]{2}(,[a-z]{2})*)?$",
        description="Languages that the model was trained for, such as `es,en`; empty: as its name tells, or any.",
    )
    sparse_model: str = Field(
        default="bm25",
        pattern=r"^(bm25|onnx:.+)$",
        description="`bm25`, or `onnx:<folder or hub id>` of a learned sparse model (SPLADE).",
    )
    max_sparse_terms: int = Field(
        default=256, ge=16, le=4096, description="Terms of a text that a learned sparse model keeps, the heaviest."
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Threads of one run of an ONNX model. A second run gains more than a second thread.",
    )
    parallel_runs: int = Field(
        default=2, ge=1, le=64, description="Runs of the model at a time, of searches and of documents each."
    )
    max_batch_items: int = Field(
        default=0,
        ge=0,
        le=256,
        description="Texts in one run of the model; 0: 1 on a processor, where more are no faster, 32 on a GPU, 128 "
        "for `openai:` (in requests of 32).",
    )
    max_batch_tokens: int = Field(default=4096, ge=16, le=65536, description="Tokens in one run of the model.")
    max_waiting_tokens: int = Field(
        default=131_072, ge=1024, description="Tokens that may wait, of searches and of documents each."
    )
    remote_model: str = Field(default="", description="Model name for `openai:`; empty where the server holds one.")
    remote_api_key: SecretStr = Field(default=SecretStr(""), description="Bearer key for `openai:`.")
    remote_timeout_seconds: float = Field(
        default=30, gt=0, le=600, description="Time for one request to `openai:`, repetitions included."
    )
    remote_tokenizer: str = Field(
        default=DEFAULT_MODEL_FOLDER,
        description="Folder or hub id with the tokenizer.json of the model behind `openai:`.",
    )
