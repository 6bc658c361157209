"""What one request is to meet."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Before = Literal["answer", "close", "reset", "silence"]
Ending = Literal["complete", "stop", "close", "half", "half_chunk", "reset", "hang", "endless", "long_line"]
Framing = Literal["chunked", "length", "short_length", "close", "bad_chunk"]
UsageStyle = Literal["none", "last", "null_then_last", "every", "with_finish"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Script(_Part):
    """One answer and its faults. Everything has a default; the default answer is a sound one.

    "Events" are those of a stream that hold content: the role's own chunk, the finish and the usage are not counted.
    """

    # Before the answer
    before: Before = Field(
        default="answer", description="Close, reset or keep silent when the request is there, without a byte."
    )
    status: int = Field(default=200, ge=200, le=599, description="400 and above answer vLLM's error object.")
    headers: dict[str, str] = Field(default={}, description="Added, such as Retry-After; they replace our own.")
    content_type: str = Field(default="", description="In place of the right one.")
    headers_delay_seconds: float = Field(default=0, ge=0)
    hold_headers: bool = Field(default=False, description="The headers wait for `go_on`.")

    # The answer
    body: str | None = Field(default=None, description="This and nothing else: HTML, broken JSON.")
    text: str = Field(default="Firmamos 47 contratos: año 👩‍👩‍👧 e\u0301 漢字.", description="Sent word by word.")
    pieces: tuple[str, ...] | None = Field(default=None, description="The text in these pieces instead.")
    repeat: int = Field(default=1, ge=0, description="How often the text comes; 0 is no content at all.")
    tool_deltas: tuple[tuple[dict[str, Any], ...], ...] = Field(
        default=(), description="Entries of `delta.tool_calls`, an event for each inner list, after the text."
    )
    role_chunk: bool = Field(default=True, description="The first chunk holds the role and nothing more.")
    finish_reason: str | None = "stop"
    done: bool = Field(default=True, description="Whether `[DONE]` ends it.")
    usage: UsageStyle = Field(
        default="last",
        description="In streams: never; in a chunk of its own at the end; the same with null before; on every chunk.",
    )
    usage_when: Literal["asked", "always"] = Field(default="asked", description="Whether `stream_options` decide.")
    prompt_tokens: int = 11
    completion_tokens: int | None = Field(default=None, description="None: as many as there were events.")
    error: dict[str, Any] | None = Field(
        default=None, description="An error event after `after_chunks` events; the rest does not come."
    )
    dimensions: int = Field(default=8, ge=1, description="Length of embeddings.")

    # Times within a stream
    first_chunk_delay_seconds: float = Field(default=0, ge=0, description="Between headers and content.")
    chunk_delay_seconds: float = Field(default=0, ge=0, description="Before each further event.")
    hold_after: int | None = Field(default=None, description="After so many events it waits for `go_on`.")

    # The bytes
    framing: Framing = "chunked"
    eol: Literal["\n", "\r\n", "\r"] = Field(default="\n", description="Ends lines of the event stream.")
    bom: bool = Field(default=False, description="The stream begins with a byte order mark.")
    comments: bool = Field(default=False, description="A comment before every event.")
    data_lines: bool = Field(default=False, description="Data of events over several lines, where JSON allows it.")
    write_bytes: int = Field(default=0, ge=0, description="Bytes a write (and HTTP chunk); 0: an event a write.")
    cut_at: tuple[int, ...] = Field(default=(), description="Or: offsets of the body at which a new write begins.")

    # The end
    ending: Ending = Field(
        default="complete",
        description="stop: a proper end of HTTP without finish and `[DONE]`; close: FIN; half: half an event and FIN; "
        "half_chunk: FIN within an HTTP chunk; reset: RST; hang: silence; endless: the last event for ever; "
        "long_line: `long_line_bytes` without a newline.",
    )
    after_chunks: int | None = Field(default=None, ge=0, description="The end comes after so many events; None: all.")
    long_line_bytes: int = 100 * 1024 * 1024


class Load(_Part):
    """What /metrics says."""

    running: float = 0
    waiting: float = 0
    kv_cache_usage: float = 0


class State(_Part):
    """Changes of the server itself; what is None stays."""

    script: Script | None = Field(default=None, description="For requests that bring no script of their own.")
    by_model: dict[str, Script] | None = None
    load: Load | None = Field(default=None, description="Without it, /metrics tells the requests that run.")
    health_status: int | None = None
    models: tuple[str, ...] | None = None
    keep_alive_seconds: float | None = Field(default=None, description="Idle connections are closed after that.")
    go_on: bool | None = Field(default=None, description="Releases whatever is held, or holds from now on.")
