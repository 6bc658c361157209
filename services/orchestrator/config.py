"""Settings of the orchestrator."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """Environment variables: SABUESO_ + the name in capitals."""

    model_url: str = Field(
        default="http://localhost:8080/v1",
        pattern="^https?://",
        description="OpenAI-compatible base URL of the model, up to and including `/v1`: the gateway's model route.",
    )
    model_name: str = Field(default="default", min_length=1, description="Name under which the model is served.")
    model_api_key: SecretStr = Field(
        default=SecretStr(""), description="Key for the model's URL. Empty: the caller's signed identity is sent."
    )
    retrieval_address: str = Field(default="localhost:50051", description="`host:port` of retrieval.")
    sql_tool_address: str = Field(default="localhost:50051", description="`host:port` of sql_tool.")
    web_tool_address: str = Field(default="localhost:50051", description="`host:port` of web_tool.")
    tool_cache_address: str = Field(default="localhost:50051", description="`host:port` of tool_cache.")
    tenants_dir: Path = Field(default=Path("tenants"), description="Folder of the tenants' files.")
    deadline_seconds: float = Field(default=60, ge=1, le=600, description="Time for an answer when none is asked for.")
    reserve_seconds: float = Field(
        default=10, ge=0, le=120, description="Part of it kept for the last model turn; never more than a third."
    )
    run_tokens: int = Field(
        default=60_000, ge=1_000, le=10_000_000, description="Model tokens of one answer, over all turns."
    )
    history_tokens: int = Field(
        default=4_000, ge=0, le=1_000_000, description="Tokens of earlier conversation that the model gets to see."
    )
    max_calls_per_turn: int = Field(default=6, ge=1, le=32, description="Tool calls that one model turn may make.")
    observation_chars: int = Field(
        default=24_000, ge=1_000, le=1_000_000, description="Characters of one tool result that the model gets to see."
    )
    max_runs: int = Field(
        default=256, ge=1, le=100_000, description="Answers under way at a time; further questions are refused."
    )
    max_tool_calls: int = Field(
        default=256, ge=1, le=100_000, description="Single tool calls under way at a time; further ones are refused."
    )
    query_transform: Literal["none", "hyde", "multi_query", "decompose", "step_back", "multi_step", "auto"] = Field(
        default="none",
        description="What documents are searched for besides the query, where the request does not say: `none`, "
        "`hyde` (a passage that might answer), `multi_query` (paraphrases), `decompose` (sub-questions), `step_back` "
        "(a broader question), `multi_step` (until it suffices) or `auto`. All but `none` cost model turns.",
    )
    query_transform_timeout_seconds: float = Field(
        default=6, gt=0, le=60, description="Time for one model turn that writes queries; then the query is used as is."
    )
    rewrite_follow_ups: bool = Field(
        default=True, description="A query that leans on the conversation is completed from it, by one model turn."
    )
    collection_routing: bool = Field(
        default=True, description="Choose among several collections by their descriptions where none is named."
    )
    vector_search_timeout_seconds: float = Field(default=5, gt=0, le=60, description="Time for one document search.")
    sql_query_timeout_seconds: float = Field(default=8, gt=0, le=60, description="Time for one SQL query.")
    web_search_timeout_seconds: float = Field(default=10, gt=0, le=60, description="Time for one web search.")
