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
    threads: int = Field(default=2, ge=1, le=64, description="Threads of one run of an ONNX model.")
    max_batch_items: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Texts in one run of the model. For ONNX on a processor more are no faster, and the vectors of an "
        "int8 model then depend on their neighbours; 32 suits a server on a GPU.",
    )
    max_batch_tokens: int = Field(default=4096, ge=16, le=65536, description="Tokens in one run of the model.")
    max_waiting_tokens: int = Field(
        default=131_072, ge=1024, description="Tokens that may wait, of searches and of documents each."
    )
    remote_model: str = Field(default="", description="Model name for `openai:`; empty where the server holds one.")
    remote_api_key: SecretStr = Field(default=SecretStr(""), description="Bearer key for `openai:`.")
    remote_timeout_seconds: float = Field(default=30, gt=0, le=600, description="Time for one request to `openai:`.")
    remote_tokenizer: str = Field(
        default=DEFAULT_MODEL_FOLDER,
        description="Folder or hub id with the tokenizer.json of the model behind `openai:`.",
    )
