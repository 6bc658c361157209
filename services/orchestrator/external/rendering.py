"""What a foreign tool said, as one text: its texts and its data; pictures and files are named, never opened."""

import json
from collections.abc import Iterator
from typing import Any

from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

_MAX_NAME_CHARS = 200
_BASE64_BYTES = 3 / 4


def rendered(result: CallToolResult, max_chars: int) -> str:
    """The text, cut at `max_chars`."""
    blocks = [_block(one) for one in result.content]
    data: Any = result.structured_content
    if data is not None and not any(_says(one, data) for one in result.content):
        blocks.append(json.dumps(data, ensure_ascii=False))
    text = "\n\n".join(filter(None, blocks)).encode("utf-8", "replace").decode()
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _says(block: ContentBlock, data: Any) -> bool:
    """Whether a text is the data already: servers repeat it for clients that know texts only."""
    if not isinstance(block, TextContent):
        return False
    try:
        return json.loads(block.text) == data
    except (ValueError, RecursionError):
        return False


def _block(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "audio"
            return f"[{kind}, {_short(block.mime_type)}, {round(len(block.data) * _BASE64_BYTES)} bytes, not shown]"
        case ResourceLink():
            return f"[link to a resource, not opened: {_short(block.name)}]"
        case EmbeddedResource():
            return "".join(_resource(block))


def _resource(block: EmbeddedResource) -> Iterator[str]:
    resource = block.resource
    kind = _short(resource.mime_type or "unknown type")
    size = len(resource.text) if isinstance(resource, TextResourceContents) else len(resource.blob) * _BASE64_BYTES
    yield f"[embedded resource, {kind}, {round(size)} bytes, not shown: {_short(str(resource.uri))}]"


def _short(text: str) -> str:
    return " ".join(text[:_MAX_NAME_CHARS].split())
