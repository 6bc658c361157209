"""What an event of a model's stream says: content or none, an end, a failure, tokens."""

from dataclasses import dataclass
from typing import Any, cast

import orjson

from services.gateway.metering import Meter

# Four bytes of text are about a token; a delta is at least one.
_BYTES_A_TOKEN = 4
# No answer has more. Believed, it would shut the tenant out for years.
_MOST_TOKENS = 100_000_000
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal", "text")
_RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed")


@dataclass(slots=True)
class Said:
    """What one event says."""

    # The event's JSON object, if it is one.
    parsed: dict[str, Any] | None = None
    done: bool = False
    error: dict[str, Any] | None = None
    # More than a role: once it has gone out, the request cannot be tried elsewhere.
    content: bool = False
    # An estimate from the texts.
    tokens: int = 0
    # Choices of which something was said, those that end, and why.
    begun: tuple[int, ...] = ()
    finished: tuple[int, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    usage: tuple[int, int] | None = None
    garbled: bool = False

    @property
    def usage_only(self) -> bool:
        """The chunk that OpenAI's API sends when `include_usage` is set."""
        if self.parsed is None or self.error is not None:
            return False
        return isinstance(self.parsed.get("usage"), dict) and not self.parsed.get("choices")


def read(data: bytes | None) -> Said:
    """Reads the data of one event."""
    if not data:
        return Said()
    try:
        parsed: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        text = data.strip()
        done = text == b"[DONE]"
        return Said(done=done, content=not done and bool(text), tokens=int(not done and bool(text)), garbled=not done)
    if not isinstance(parsed, dict):
        return Said(content=True, tokens=1)
    chunk = cast(dict[str, Any], parsed)
    said = Said(chunk, error=error_of(chunk) if "choices" not in chunk or "error" in chunk else None)
    kind = chunk.get("type")
    if isinstance(kind, str) and "choices" not in chunk and said.error is None:
        _read_response_event(kind, said)
    else:
        _read_chunk(said)
    return said


def error_of(parsed: Any) -> dict[str, Any] | None:
    """The error object in an answer's or event's JSON, in any of the forms that servers use; None if it has none."""
    if not isinstance(parsed, dict):
        return None
    answer = cast(dict[str, Any], parsed)
    error = answer.get("error")
    if isinstance(error, dict):
        return cast(dict[str, Any], error)
    if isinstance(error, str) and error:
        return {"message": error}
    if answer.get("object") == "error" or answer.get("type") == "error":  # vLLM of old; the Responses API
        return answer
    return None


def usage_of(parsed: Any) -> tuple[int, int] | None:
    """Prompt and completion tokens that a JSON object states under `usage`; None if it does not."""
    usage = cast(dict[str, Any], parsed).get("usage") if isinstance(parsed, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = cast(dict[str, Any], usage)
    prompt = _count(counts, "prompt_tokens", "input_tokens")
    completion = _count(counts, "completion_tokens", "output_tokens")
    if prompt is None and completion is None:
        if counts.keys() & {"prompt_tokens", "input_tokens", "completion_tokens", "output_tokens"}:
            return None  # nonsense, and nothing that is said beside it is to be believed
        total = _count(counts, "total_tokens")  # a reranker says no more than that
        return None if total is None else (total, 0)
    return prompt or 0, completion or 0


def note_origin(meter: Meter, parsed: Any) -> None:
    """Notes which answer, of which model, an answer's JSON says that it is."""
    if isinstance(parsed, dict):
        answer = cast(dict[str, Any], parsed)
        name, model = answer.get("id"), answer.get("model")
        meter.response_id = name if isinstance(name, str) else ""
        meter.response_model = model if isinstance(model, str) else ""


def tokens_in(text: str) -> int:
    """About how many tokens a piece of text is: at least 1, or 0 for none."""
    return max(1, len(text.encode(errors="replace")) // _BYTES_A_TOKEN) if text else 0


def _count(counts: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return value
    return None


def _read_chunk(said: Said) -> None:
    parsed = cast(dict[str, Any], said.parsed)
    if "usage" in parsed:
        said.usage = usage_of(parsed)
    choices = parsed.get("choices")
    if not isinstance(choices, list):
        said.content = said.usage is None
        return
    for position, choice in enumerate(cast(list[Any], choices)):
        if isinstance(choice, dict):
            _read_choice(cast(dict[str, Any], choice), position, said)


def _read_choice(choice: dict[str, Any], position: int, said: Said) -> None:
    given = choice.get("index")
    index = given if isinstance(given, int) else position
    said.begun += (index,)
    reason = choice.get("finish_reason")
    if reason is not None:
        said.finished += (index,)
        said.finish_reasons += (str(reason),)
        said.content = True
    delta = choice.get("delta")
    spoken = cast(dict[str, Any], delta) if isinstance(delta, dict) else choice
    for name, value in spoken.items():
        if name in _TEXTS and isinstance(value, str):
            said.tokens += tokens_in(value)
            said.content = said.content or bool(value)
        elif name in ("tool_calls", "function_call", "audio") and value:
            said.tokens += _tokens_of_calls(value)
            said.content = True


def _tokens_of_calls(calls: Any) -> int:
    tokens = 0
    for call in cast(list[Any], calls) if isinstance(calls, list) else [{"function": calls}]:
        function = cast(dict[str, Any], call).get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            for value in cast(dict[str, Any], function).values():
                tokens += tokens_in(value) if isinstance(value, str) else 0
    return max(1, tokens)


def _read_response_event(kind: str, said: Said) -> None:
    """An event of the Responses API, whose last one holds the whole response."""
    parsed = cast(dict[str, Any], said.parsed)
    delta = parsed.get("delta")
    if kind.endswith(".delta") and isinstance(delta, str):
        said.tokens, said.content = tokens_in(delta), True
    if kind in _RESPONSE_ENDS:
        said.done = said.content = True
        said.usage = usage_of(parsed.get("response"))
