"""Writes completions in OpenAI's form, whole or as server-sent events, with the details that vLLM adds."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from services.understudy.generation import Generation, Piece

# Says in every answer what has answered.
FINGERPRINT = "sabueso-understudy"
# An event costs its readers more than its text: of pieces that leave together, those after the first few share events.
_SINGLE_EVENTS, _EVENT_TOKENS = 12, 8
# Hardware that takes 10 ms and more for a token sends an event each; where a token takes one, a step of several does.
_STEPPED_EVENTS = 1


@dataclass(frozen=True)
class Head:
    """What every part of one completion repeats. `created` is Unix time in seconds."""

    id: str
    created: int
    model: str


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Token counts of one completion."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def completion(head: Head, generation: Generation, prompt_tokens: int) -> dict[str, Any]:
    """The whole answer."""
    calls = [_call(call_id, name, arguments) for call_id, name, arguments in generation.calls()]
    message = {"role": "assistant", "content": None if calls else generation.text, "tool_calls": calls}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": generation.finish_reason,
        "stop_reason": generation.stop_reason,
    }
    return {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [choice],
        "system_fingerprint": FINGERPRINT,
        "usage": usage(prompt_tokens, generation.tokens),
    }


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def opening(head: Head) -> bytes:
    """The first event: the role."""
    return _event(head, {"role": "assistant", "content": ""})


def deltas(head: Head, pieces: Sequence[Piece], *, paced: bool = False) -> bytes:
    """Events of pieces that are sent together. If they are many they share some, as vLLM's do when its client lags.

    `paced`: the pieces are those of one step of a latency profile.
    """
    alone = _STEPPED_EVENTS if paced else _SINGLE_EVENTS
    return b"".join(_event(head, _delta(piece)) for piece in _joined(pieces, alone))


def _joined(pieces: Sequence[Piece], alone: int) -> list[Piece]:
    joined = list(pieces[:alone])
    for piece in pieces[alone:]:
        last = joined[-1]
        # The piece that opens a call has no text and an event of its own.
        if piece.text and last.text and last.call == piece.call and last.tokens < _EVENT_TOKENS:
            joined[-1] = replace(last, text=last.text + piece.text, tokens=last.tokens + piece.tokens)
        else:
            joined.append(piece)
    return joined


def _delta(piece: Piece) -> dict[str, Any]:
    if piece.call is None:
        return {"content": piece.text}
    if not piece.text:
        function = {"name": piece.name}
        return {"tool_calls": [{"index": piece.call, "id": piece.call_id, "type": "function", "function": function}]}
    return {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}


def closing(head: Head, generation: Generation, prompt_tokens: int, *, include_usage: bool) -> Iterator[bytes]:
    """Finish reason, usage where asked for, and the end mark."""
    yield _event(head, {"content": ""}, generation)
    if include_usage:
        chunk = _chunk(head, []) | {"usage": usage(prompt_tokens, generation.tokens)}
        yield _data(chunk)
    yield b"data: [DONE]\n\n"


def _event(head: Head, delta: dict[str, Any], ended: Generation | None = None) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    if ended is not None:
        choice |= {"finish_reason": ended.finish_reason, "stop_reason": ended.stop_reason}
    return _data(_chunk(head, [choice]))


def _chunk(head: Head, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": head.id,
        "object": "chat.completion.chunk",
        "created": head.created,
        "model": head.model,
        "choices": choices,
    }


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
