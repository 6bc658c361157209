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
    # How models call tools, and what they read of a conversation.
    model_profile: Literal["auto", "openai", "hermes", "llama3_json", "mistral", "qwen3"] = Field(
        default="auto",
        description="Family of the models: how it writes calls that its server left in the text, and what its chat "
        "template takes. `auto`: by the name under which a model is served; `openai`: nothing particular.",
    )
    tool_calls: Literal["native", "guided", "auto"] = Field(
        default="native",
        description="`native`: the model's own tool calls. `guided`: one JSON object by a schema (`response_format`), "
        "with several calls at once. `auto`: guided for families that do not make several calls by themselves.",
    )
    history_summaries: bool = Field(
        default=True,
        description="Earlier turns that do not fit into `SABUESO_HISTORY_TOKENS` are summed up by one model turn, "
        "remembered in this process, instead of being left out.",
    )
    history_summary_timeout_seconds: float = Field(
        default=8, gt=0, le=60, description="Time for one summary; then the turns are left out."
    )
    run_document_tokens: int = Field(
        default=16_000, ge=500, le=1_000_000, description="Tokens of all passages in a run; older ones are shortened."
    )
    run_row_tokens: int = Field(
        default=8_000, ge=500, le=1_000_000, description="Tokens of all rows in a run; older ones are shortened."
    )
    run_web_tokens: int = Field(
        default=8_000, ge=500, le=1_000_000, description="Tokens of all web results in a run; older ones are shortened."
    )
    run_reply_tokens: int = Field(
        default=8_000,
        ge=500,
        le=1_000_000,
        description="Tokens of what all other tools say in a run. Above such a budget older results of that kind are "
        "shortened in what the model reads; the newest one never is.",
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
    max_calls_per_answer: int = Field(
        default=40, ge=1, le=1_000, description="Tool calls that one answer may make, over all turns and sub-questions."
    )
    observation_chars: int = Field(
        default=24_000, ge=1_000, le=1_000_000, description="Characters of one tool result that the model gets to see."
    )
    first_calls_seconds: int = Field(
        default=3_600,
        ge=0,
        le=86_400,
        description="How long it is remembered with which tool calls a model began a question; asked again with "
        "`cache: use`, those are made at once, without a turn of the model. 0: not at all.",
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

    # How `auto` chooses the way of answering.
    auto_plan_seconds: float = Field(
        default=10, ge=0, le=600, description="With less time than this no question is taken apart into a plan."
    )
    auto_rag_seconds: float = Field(
        default=3,
        ge=0,
        le=600,
        description="With less time than this a question for documents is answered from one search, in one model turn.",
    )

    # Plans: how far a question is taken apart, and who works on the parts.
    planner_model_name: str = Field(
        default="", description="Name of the served model that plans. Empty: that of `SABUESO_MODEL_NAME`."
    )
    specialist_model_name: str = Field(
        default="",
        description="Name of the served model that works on a plan's steps; a smaller one may do. Empty: the same.",
    )
    documents_specialist_model_name: str = Field(
        default="",
        description="The model for steps that search documents. Empty: that of `SABUESO_SPECIALIST_MODEL_NAME`.",
    )
    sql_specialist_model_name: str = Field(
        default="", description="The model for steps that query databases. Empty: as for documents."
    )
    web_specialist_model_name: str = Field(
        default="", description="The model for steps that search the web. Empty: as for documents."
    )
    plan_max_steps: int = Field(default=6, ge=2, le=6, description="Most steps that a question is taken apart into.")
    plan_parallel_steps: int = Field(
        default=4, ge=1, le=6, description="Steps of one plan that are worked on at the same time; others wait."
    )
    plan_step_iterations: int = Field(
        default=4, ge=1, le=10, description="Model turns with tools of one step; never more than the request allows."
    )
    plan_timeout_seconds: float = Field(
        default=10, gt=0, le=60, description="Time for the turn that plans; after it the question is answered whole."
    )

    # Tools of other people's servers (MCP), and conversations that are kept.
    mcp_stdio: bool = Field(
        default=False, description="Programs that tenants' files name as MCP servers may be started. Not in a cluster."
    )
    mcp_list_seconds: float = Field(
        default=60, ge=1, le=86_400, description="After so long an MCP server is asked again which tools it has."
    )
    mcp_max_response_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Largest answer of an MCP server."
    )
    mcp_calls_per_server: int = Field(
        default=8, ge=1, le=256, description="Calls to one MCP server for one tenant at the same time; others wait."
    )
    secrets_dir: Path = Field(
        default=Path("secrets"), description="Folder of the files that hold the tokens of MCP servers, one a file."
    )
    valkey_url: str = Field(
        default="redis://localhost:6379",
        pattern=r"^(rediss?|unix)://.+$|^memory:$",
        description="Valkey or Redis that keeps conversations. `memory:` keeps them in this process only.",
    )
    valkey_cluster: bool = Field(
        default=False, description="`SABUESO_VALKEY_URL` is a node of a cluster; all of one caller shares a slot."
    )
    session_ttl_seconds: int = Field(
        default=86_400,
        ge=0,
        le=2_592_000,
        description="How long a conversation is kept after its last question; 0: none is kept.",
    )
    session_max_turns: int = Field(
        default=50, ge=1, le=1_000, description="Newest turns of a conversation that are read."
    )
    session_max_bytes: int = Field(
        default=256 * 1024, ge=1_024, le=16 * 1024 * 1024, description="And so many bytes of them, the newest first."
    )
    session_timeout_seconds: float = Field(
        default=0.5, gt=0, le=10, description="Time Valkey gets for a conversation; then the answer goes on without."
    )

    # Injections: what judges the text that tools bring in.
    injection_model: str = Field(
        default="",
        pattern="^(onnx:.+)?$",
        description="Classifier of injections besides the built-in one: `onnx:` and a folder or hub id. Empty: none.",
    )

    # The router: what chooses tools by examples, without a model turn.
    embedding_address: str = Field(
        default="", description="`host:port` of embedding, for the router. Empty: the model chooses all tools."
    )
    router_min_confidence: float = Field(
        default=0.65,
        ge=0,
        le=1,
        description="Probability of being right below which the router leaves the choice of tools to the model. "
        "That a question needs no tool must be surer: 0.85 with 0.65.",
    )

    # What is measured of live traffic.
    evaluation_address: str = Field(
        default="",
        description="`host:port` of evaluation, for the share of answers that tenants' files name. Empty: none leaves.",
    )

    # How answers are checked against their sources.
    citation_check_seconds: float = Field(
        default=1,
        ge=0,
        le=60,
        description="Time for checking citations by meaning and by a model, after the answer's last word. What words "
        "and figures tell is checked in any case.",
    )
    citation_judge: Literal["off", "on", "all"] = Field(
        default="off",
        description="`on`: citations that neither words nor meaning decide are judged by a model turn. `all`: every "
        "citation is, and the model has the last word.",
    )
    citation_judge_model_name: str = Field(
        default="", description="The model that judges citations, and reflects; empty: the one that answers."
    )
    reflection: Literal["off", "mark", "drop"] = Field(
        default="off",
        description="What the model is asked of its own work where the request does not say: whether evidence is "
        "needed, which passages help, which sentences are supported. `mark` marks those that are not with `(?)`, "
        "`drop` leaves them out. The text is then shown at its end only; costs three model turns and more.",
    )
