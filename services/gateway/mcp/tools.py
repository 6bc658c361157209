"""Tools and their results: the orchestrator's words in MCP's."""

import json
from collections.abc import Mapping
from typing import Any

from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TEXT, _FLAG, _ANY_LIST = {"type": "string"}, {"type": "boolean"}, {"type": "array"}
_PASSAGE = _object(
    document_id=_TEXT,
    chunk_id=_TEXT,
    collection=_TEXT,
    title=_TEXT,
    source=_TEXT | {"description": "File name or URL."},
    page={"type": ["integer", "null"], "description": "From 1; null where the format has no pages."},
    section=_TEXT,
    language=_TEXT,
    score={"type": "number", "description": "Compares within one result only."},
    metadata={"type": "object", "additionalProperties": _TEXT},
    text=_TEXT,
)
_PAGE = _object(title=_TEXT, url=_TEXT, snippet=_TEXT, published=_TEXT)
_ROWS = _object(
    columns={"type": "array", "items": _TEXT},
    rows={"type": "array", "items": _ANY_LIST},
    row_count={"type": "integer"},
    truncated=_FLAG,
    statement=_TEXT | {"description": "The SELECT that was run."},
    params=_ANY_LIST,
)
_SAID = _object(text=_TEXT, truncated=_FLAG)
# By the kinds of tools; all others are queries, and give rows.
_RESULTS: Mapping[str, dict[str, Any]] = {
    "calculate": _SAID,
    "external": _SAID,
    "vector_search": _object(passages={"type": "array", "items": _PASSAGE}, truncated=_FLAG),
    "web_search": _object(results={"type": "array", "items": _PAGE}, truncated=_FLAG),
}
_TITLES = {
    "vector_search": "Document search",
    "sql_query": "SQL query",
    "web_search": "Web search",
    "calculate": "Calculator",
}


def as_tool(tool: pb.Tool) -> Tool:
    """The very name, description and schema that the model sees, and what programs want to know besides."""
    title = _TITLES.get(tool.name) or " ".join(filter(None, tool.name.split("_"))).capitalize()
    return Tool(
        name=tool.name,
        title=title,
        description=tool.description,
        input_schema=json.loads(tool.parameters_schema_json),
        output_schema=_RESULTS.get(tool.kind or tool.name, _ROWS),
        annotations=ToolAnnotations(
            title=title,
            read_only_hint=not tool.writes,
            # What a foreign tool that writes does, nobody here knows: the protocol's own defaults are the worst case.
            destructive_hint=tool.writes,
            idempotent_hint=not tool.writes,
            open_world_hint=tool.kind == "external" or tool.name == "web_search",
        ),
    )


def as_result(result: pb.ToolResult) -> CallToolResult:
    """What a tool gave. A failure has its text alone: clients hold structured content against the tool's schema."""
    facts = {"from_cache": result.from_cache, "duration_ms": result.duration.ToMilliseconds()}
    return CallToolResult(
        content=[TextContent(text=result.text)],
        structured_content=None if result.failed else json.loads(result.structured_json),
        is_error=result.failed,
        _meta={"sabueso/call": facts},
    )


def wrong_arguments(tool: str, message: str) -> CallToolResult:
    """Arguments outside the schema are told to the model, which can mend them (SEP-1303)."""
    text = json.dumps({"error": message, "tool": tool}, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
