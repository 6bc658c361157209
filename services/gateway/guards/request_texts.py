"""Where the texts of a request to a model are."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

# What of a request's body is text that a model reads.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "/v1/chat/completions": ("messages",),
    "/v1/completions": ("prompt", "suffix"),
    "/v1/responses": ("input", "instructions"),
    "/v1/embeddings": ("input",),
    "/v1/rerank": ("query", "documents"),
}
# They name things; what they say is the protocol's, or an identifier's.
_NAMES = {"role", "type", "id", "tool_call_id", "call_id", "status", "detail", "format", "mime_type", "media_type"}
_MEDIA = {"data", "file_data", "b64_json", "image_url", "url"}
_TOKENS = "tokens"


class Visitor(Protocol):
    """Sees every text, and says what is to stand in its place."""

    def text(self, path: str, role: str, text: str) -> str:
        """`path`: such as `messages.0.content`; `role`: who says it, empty where nobody does."""
        ...

    def unreadable(self, path: str, kind: str) -> None:
        """Something that is no text: `media`, or a prompt of `tokens`."""
        ...


def visited(asked: dict[str, Any], fields: tuple[str, ...], visitor: Visitor) -> dict[str, Any]:
    """`asked` with what the visitor says in the place of its texts; the same object if it changed none."""
    changed = {
        name: new
        for name in fields
        if name in asked and (new := _visited(asked[name], name, name, "", visitor)) is not asked[name]
    }
    return {**asked, **changed} if changed else asked


def _visited(value: Any, path: str, name: str, role: str, visitor: Visitor) -> Any:
    if isinstance(value, str):
        if name in _NAMES:
            return value
        if name in _MEDIA and value.startswith("data:"):
            visitor.unreadable(path, "media")
            return value
        new = visitor.text(path, role, value)
        return value if new == value else new
    if isinstance(value, list):
        return _list(cast(list[Any], value), path, name, role, visitor)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        said_by = members.get("role")
        role = said_by if isinstance(said_by, str) else role
        return _changed(members, lambda key, one: _visited(one, f"{path}.{key}", key, role, visitor))
    return value


def _list(items: list[Any], path: str, name: str, role: str, visitor: Visitor) -> list[Any]:
    if items and all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        visitor.unreadable(path, _TOKENS)
        return items
    changed = False
    result: list[Any] = []
    for index, item in enumerate(items):
        new = _visited(item, f"{path}.{index}", name, role, visitor)
        changed = changed or new is not item
        result.append(new)
    return result if changed else items


def _changed(members: dict[str, Any], visit: Callable[[str, Any], Any]) -> dict[str, Any]:
    new = {key: visit(key, value) for key, value in members.items()}
    return new if any(new[key] is not members[key] for key in members) else members
