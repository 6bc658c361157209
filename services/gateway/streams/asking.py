"""The request as the model's server gets it: the client's bytes, and a question for the usage where it has none."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from services.gateway.streams.members import replaced


@dataclass(frozen=True)
class Outgoing:
    """What is sent, and what the client must not notice of it."""

    path: str
    body: bytes
    # The client asked for an event stream.
    streamed: bool = False
    # The usage was not asked for by the client, but by us.
    hides_usage: bool = False


def outgoing(path: str, body: bytes, asked: Mapping[str, Any] | None) -> Outgoing:
    """`body`, which parsed to `asked`, for the endpoint `path`.

    Without usage a stream could not be charged exactly. It is asked for by changing these bytes alone:
    `stream_options`, of chat and plain completions.
    """
    if asked is None or not _is_true(asked.get("stream")):
        return Outgoing(path, body)
    options = asked.get("stream_options")
    offers_usage = path.rstrip("/").endswith("completions")
    if not offers_usage or not (options is None or isinstance(options, dict)):
        return Outgoing(path, body, streamed=True)
    wanted = cast(dict[str, Any], options or {})
    if wanted.get("include_usage") not in (None, False):
        return Outgoing(path, body, streamed=True)
    changed = json.dumps({**wanted, "include_usage": True}, ensure_ascii=False, separators=(",", ":")).encode()
    if "stream_options" in asked:
        edited = replaced(body, "stream_options", changed)
    else:
        start = body.index(b"{") + 1
        edited = body[:start] + b'"stream_options":' + changed + b"," + body[start:]
    return Outgoing(path, edited, streamed=True, hides_usage=True)


def _is_true(value: Any) -> bool:
    """As lenient as vLLM (pydantic): else a stream could be had that is taken for none."""
    if isinstance(value, str):
        return value.lower() in ("true", "t", "yes", "y", "on", "1")
    return isinstance(value, int | float) and value == 1
