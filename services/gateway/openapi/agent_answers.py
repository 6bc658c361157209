"""Answers of the agent, as the API's description shows them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

Json = dict[str, Any]


class Call(BaseModel):
    """A call of a tool. The fields after `summary` come where they say something."""

    tool: str
    arguments: Any = Field(description="An object; a text where the model wrote no JSON.")
    status: Literal["running", "ok", "error"]
    from_cache: bool
    duration_ms: float | None
    summary: str
    cache: Json | None = Field(default=None, description="`kind` (exact, semantic), `age_s`, `matched`, `similarity`.")
    queries: list[str] = []
    query_transform: str = ""
    collections: list[str] = []


class Step(BaseModel):
    """A turn of the model that called tools."""

    iteration: int
    step_id: str | None = Field(default=None, description="The step of the plan that it is for.")
    thought: str
    calls: list[Call]


class Chosen(BaseModel):
    """A way of answering, and why."""

    strategy: str
    reason: str
    confidence: float | None


class PlanStep(BaseModel):
    """A sub-question."""

    id: str
    question: str
    specialist: str | None
    depends_on: list[str]
    found: bool | None = Field(description="Whether it found something to go on; null where it did not end.")
    reason: str | None = Field(description="Why it found nothing, or not all.")


class Plan(BaseModel):
    """How the question was taken apart."""

    revision: int
    steps: list[PlanStep]


class Finding(BaseModel):
    """Something of the answer that what it cites does not support. The answer says so itself where it matters."""

    kind: Literal["unspecified", "citation", "number", "unsupported", "not_useful", "link", "prompt_leak"]
    text: str
    mark: int | None
    reason: str


class Suspicion(BaseModel):
    """Text of a tool that gives orders to the model, or a call that would have obeyed it."""

    tool: str
    call_id: str
    action: Literal["unspecified", "flagged", "redacted", "quarantined", "call_refused"]
    score: float
    reason: str


class Skipped(BaseModel):
    """Something that failed, and that the answer went on without."""

    service: str
    reason: str


class CacheUse(BaseModel):
    """What the cache of tool results gave."""

    mode: Literal["use", "refresh", "off"]
    hits: int
    oldest_age_s: float | None


class Spent(BaseModel):
    """Tokens over all turns of the model."""

    prompt: int
    completion: int


class Evidence(BaseModel):
    """A piece of evidence that the model was shown. The fields after `cited` are those of its kind."""

    mark: int = Field(description="The `n` by which the model could cite it.")
    source: str = Field(description="File name, URL or tool; `sql` for rows of the database.")
    title: str
    text: str = Field(description="What it says; of rows the first, as JSON.")
    score: float | None = Field(description="Of its search; compares within one search only.")
    cited: bool
    document_id: str | None = None
    chunk_id: str | None = None
    statement: str | None = None
    url: str | None = None
    tool: str | None = None


class Checking(BaseModel):
    """What of the tokens and the model's time went into checking the answer by a model."""

    tokens: Spent
    duration_ms: float


class Summary(BaseModel):
    """How an answer came about."""

    answer_id: str = Field(description="For POST /v1/feedback.")
    strategy: str
    finish: Literal["answered", "partial", "refused"]
    reason: str | None = Field(description="Why it is partial or refused.")
    iterations: int
    chosen: list[Chosen] = Field(description="More than one where the run changed over.")
    plan: Plan | None = Field(description="The last of `plans`.")
    plans: list[Plan] = Field(description="All of them: a second one adds what was missing after the first.")
    steps: list[Step]
    findings: list[Finding]
    suspicions: list[Suspicion]
    degraded: list[Skipped]
    cache: CacheUse
    timings_ms: dict[str, float] = Field(
        description="`model`, `tools`, `cache`, `overhead` and their `total`, the agent's own time. `gateway` is all "
        "else that the caller waited for, and not known of an answer that is read again."
    )
    tokens: Spent
    estimated_tokens: int = Field(description="Of `tokens`: what was estimated, because a turn of the model broke off.")
    checking: Checking
    evidence: list[Evidence] | None = Field(default=None, description="Where `include_evidence` asks for it.")


class Annotation(BaseModel):
    """The source behind a mark `[n]`: the field that `type` names. Its `start_index` and `end_index` name the mark."""

    type: Literal["file_citation", "url_citation", "sql_citation", "tool_citation"]
    file_citation: Json | None = None
    url_citation: Json | None = None
    sql_citation: Json | None = None
    tool_citation: Json | None = None


class Message(BaseModel):
    """What was said."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    annotations: list[Annotation] = []


class Choice(BaseModel):
    """The one answer."""

    index: int
    message: Message
    logprobs: Json | None
    finish_reason: str


class Usage(BaseModel):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """An answer of the agent. Other models answer as their servers do."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: Literal["sabueso"]
    choices: list[Choice]
    usage: Usage
    sabueso: Summary


class ResponseItem(BaseModel):
    """A call of a tool (`mcp_call`), or the message. See OpenAI's Responses API for the fields of each."""

    id: str
    type: Literal["mcp_call", "message"]
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    role: Literal["assistant"] | None = None
    content: list[Json] = []
    server_label: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None
    error: str | None = None
    approval_request_id: str | None = None
    sabueso: Json | None = None


class ResponseUsage(BaseModel):
    """Tokens."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class AgentResponse(BaseModel):
    """A response of the agent, in the form of OpenAI's Responses API."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["completed", "incomplete"]
    error: None
    incomplete_details: Json | None
    model: Literal["sabueso"]
    output: list[ResponseItem]
    usage: ResponseUsage
    sabueso: Summary
    background: bool
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    previous_response_id: str | None
    conversation: Json | None
    reasoning: Json
    service_tier: str
    store: bool
    temperature: float | None
    text: Json
    tool_choice: str
    tools: list[Json]
    top_logprobs: int
    top_p: None
    truncation: str
    user: str | None


class InputItems(BaseModel):
    """A page of the items that a response was asked with, the last one first unless `order` says otherwise."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ConversationDeleted(BaseModel):
    """What was forgotten."""

    id: str | None = None
    object: Literal["conversation.deleted", "response"]
    deleted: Literal[True]
    answer_count: int
