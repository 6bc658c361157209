"""What an answer in one piece says of itself, read while it passes, in bounded memory."""

import re
from typing import Any, cast

import orjson

from services.gateway.metering import Meter
from services.gateway.streams.reading import note_origin, tokens_in, usage_of

# Parsed whole up to here; of larger ones (embeddings are many MB of numbers) only the beginning and the end are kept.
_MOST_PARSED_BYTES = 256 * 1024
_EDGE_BYTES = 32 * 1024
# In a text the quotation marks would be escaped.
_USAGE = re.compile(rb'(?<!\\)"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


class BodyReader:
    """Takes the pieces of a JSON body."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._head = b""
        self._tail = b""
        self._size = 0

    def feed(self, piece: bytes) -> None:
        """One more piece."""
        self._size += len(piece)
        if self._size <= _MOST_PARSED_BYTES:
            self._pieces.append(piece)
            return
        if self._pieces:
            self._tail = b"".join(self._pieces)
            self._pieces.clear()
        if not self._head:
            self._head = (self._tail + piece)[:_EDGE_BYTES]
        self._tail = (self._tail + piece[-_EDGE_BYTES:])[-_EDGE_BYTES:]

    def tell(self, meter: Meter, *, writes: bool) -> None:
        """Tells the meter what the body says; it is complete. `writes`: it holds text of the model's, to be charged."""
        parsed = self._parsed()
        usage = usage_of(parsed) or _last_usage(self._tail) or _last_usage(self._head)
        if usage is not None:
            meter.usage(*usage)
        elif writes:
            meter.delivered(self._size // 4 if parsed is None else sum(map(_tokens_of, _choices(parsed))))
        note_origin(meter, parsed)
        reasons = (choice.get("finish_reason") for choice in _choices(parsed))
        meter.finish_reasons += [str(reason) for reason in reasons if reason is not None]

    def _parsed(self) -> Any:
        """The whole body; None if it is too large, or no JSON."""
        try:
            return orjson.loads(b"".join(self._pieces))
        except orjson.JSONDecodeError:
            return None


def _choices(parsed: Any) -> list[dict[str, Any]]:
    choices: Any = cast(dict[str, Any], parsed).get("choices") if isinstance(parsed, dict) else None
    listed = cast(list[Any], choices) if isinstance(choices, list) else []
    return [cast(dict[str, Any], choice) for choice in listed if isinstance(choice, dict)]


def _tokens_of(choice: dict[str, Any]) -> int:
    said = choice.get("message", choice)
    texts = cast(dict[str, Any], said).values() if isinstance(said, dict) else ()
    return sum(tokens_in(text) for text in texts if isinstance(text, str))


def _last_usage(text: bytes) -> tuple[int, int] | None:
    for found in reversed(_USAGE.findall(text)):
        try:
            return usage_of({"usage": orjson.loads(found)})
        except orjson.JSONDecodeError:
            continue
    return None
