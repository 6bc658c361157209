"""Turns of a conversation as callers write them, in the orchestrator's words."""

from collections.abc import Mapping
from typing import Any, cast

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.answer import AGENT
from services.gateway.errors import ApiError


def turn(role: str, content: Any, where: str, kinds: Mapping[str, str]) -> pb.Message:
    """A turn with the text of `content`: a string, or parts of `kinds` (type → the field that holds its text).

    `where` names it in the request. Raises ApiError.
    """
    if role == "developer":
        role = "system"
    if role not in ("system", "user", "assistant"):
        problem = f"{where}.role: `{role[:40]}` is not one of system, developer, user, assistant."
        raise ApiError(400, problem, code="unsupported_parameter", param=f"{where}.role")
    return pb.Message(role=role, text=text_of(content, f"{where}.content", kinds))


def content_schema(kinds: Mapping[str, str]) -> dict[str, Any]:
    """JSON Schema of what `turn` takes as content."""
    parts = [
        {
            "type": "object",
            "required": ["type", field],
            "properties": {"type": {"const": kind}, field: {"type": "string"}},
        }
        for kind, field in kinds.items()
    ]
    return {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {"anyOf": parts}}]}


def text_of(content: Any, where: str, kinds: Mapping[str, str]) -> str:
    """The text of a string, a part, or a list of parts; nothing for null. Raises ApiError."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = cast(list[Any], content) if isinstance(content, list) else [content]
    return "\n".join(_text_of_part(part, where, kinds) for part in parts)


def _text_of_part(part: Any, where: str, kinds: Mapping[str, str]) -> str:
    fields = cast(dict[str, Any], part) if isinstance(part, dict) else {}
    kind = fields.get("type")
    if isinstance(kind, str) and kind not in kinds:
        problem = f"{where}: the agent `{AGENT}` reads text; `{kind[:40]}` is not offered."
        raise ApiError(400, problem, code="unsupported_parameter", param=where)
    text = fields.get(kinds[kind]) if isinstance(kind, str) else None
    if not isinstance(text, str):
        first = next(iter(kinds))
        problem = f'{where}: send a string, or a list of {{"type": "{first}", "text": "…"}}.'
        raise ApiError(400, problem, code="invalid_field", param=where)
    return text
