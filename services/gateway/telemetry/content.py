"""What was asked and answered, for traces, where an operator has chosen to have it there."""

import json
from collections.abc import Iterable
from typing import Any, cast

import orjson

from services.gateway.streams.framing import Event, EventTooLarge, Framer
from services.gateway.streams.reading import read

MAX_BYTES = 64 * 1024


class Recorded:
    """The bytes of an answer, up to a size."""

    def __init__(self) -> None:
        self._body = bytearray()

    def add(self, piece: bytes) -> None:
        """Takes the next bytes."""
        self._body += piece[: MAX_BYTES - len(self._body)]

    def messages(self) -> str:
        """The answer as OpenTelemetry's JSON of output messages."""
        body = bytes(self._body)
        texts = _of_stream(body) if not body.lstrip().startswith(b"{") else _of_whole(body)
        return _json({"role": "assistant", "parts": [_part(text)]} for text in texts)


def input_messages(asked: dict[str, Any]) -> str:
    """A request as OpenTelemetry's JSON of input messages."""
    said = asked.get("messages") or asked.get("input") or asked.get("prompt") or asked.get("query")
    turns = cast(list[Any], said) if isinstance(said, list) else [said]
    return _json(_message(turn) for turn in turns)[:MAX_BYTES]


def _message(turn: Any) -> dict[str, Any]:
    if not isinstance(turn, dict):
        return {"role": "user", "parts": [_part(turn)]}
    members = cast(dict[str, Any], turn)
    return {"role": members.get("role", "user"), "parts": [_part(members.get("content"))]}


def _part(said: Any) -> dict[str, Any]:
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return {"type": "text", "content": text}


def _json(messages: Iterable[dict[str, Any]]) -> str:
    return json.dumps(list(messages), ensure_ascii=False)


def _of_whole(body: bytes) -> list[str]:
    try:
        answer = cast(dict[str, Any], orjson.loads(body))
    except orjson.JSONDecodeError:
        return []
    choices = cast(list[dict[str, Any]], answer.get("choices") or [])
    if "output" in answer:
        return [json.dumps(answer["output"], ensure_ascii=False)]
    return [_text_of(choice.get("message") or choice) for choice in choices]


def _of_stream(body: bytes) -> list[str]:
    texts: dict[Any, str] = {}
    for event in _events(body):
        parsed = read(event.data).parsed or {}
        if isinstance(parsed.get("delta"), str) and "output_text" in str(parsed.get("type")):
            texts[parsed.get("output_index")] = texts.get(parsed.get("output_index"), "") + parsed["delta"]
        for choice in cast(list[dict[str, Any]], parsed.get("choices") or []):
            index = choice.get("index", 0)
            texts[index] = texts.get(index, "") + _text_of(choice.get("delta") or choice)
    return list(texts.values())


def _events(body: bytes) -> list[Event]:
    try:
        return Framer().feed(body)
    except EventTooLarge:
        return []


def _text_of(said: dict[str, Any]) -> str:
    text = said.get("content") or said.get("text") or ""
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
