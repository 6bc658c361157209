"""The JSON Schema of a guided turn, made of the tools' own, within what grammars for constrained decoding take.

vLLM refuses a schema with what its xgrammar backend cannot enforce (400), and large bounds on lengths take it seconds
to compile. What is left out here is checked when a call is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from services.orchestrator.model import ToolSpec

TITLE = "tool_plan"
_MAX_CALLS = 8
_DEEPEST, _MOST_SCHEMAS = 12, 1_000
_MAX_ITEMS = 20
# Kept as they are. Everything else is left out: pattern, format, lengths, multipleOf, uniqueItems, if/then/else, not, …
_KEPT = ("type", "enum", "const", "minimum", "maximum")
_ALTERNATIVES = ("anyOf", "oneOf")


def plan_schema(tools: Sequence[ToolSpec]) -> Mapping[str, Any]:
    """An object with `thought`, `calls` (each one of the tools with its arguments) and `answer`, in this order."""
    calls = [
        {
            "type": "object",
            "properties": {"tool": {"const": tool.name, "type": "string"}, "arguments": plain(tool.parameters)},
            "required": ["tool", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return {
        "title": TITLE,
        "type": "object",
        "properties": {
            "thought": {"type": "string"},
            "calls": {"type": "array", "items": {"anyOf": calls}, "maxItems": _MAX_CALLS},
            "answer": {"type": "string"},
        },
        "required": ["thought", "calls", "answer"],
        "additionalProperties": False,
    }


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema, wider where it says what a grammar cannot hold. References are put in place.

    It is somebody else's, and may be none: what makes no sense is left out.
    """
    return _Plain(schema).of(schema, _DEEPEST)


@dataclass
class _Plain:
    """`left`: so many schemas are written out; of one that refers to itself in several places there is no end."""

    root: Mapping[str, Any]
    left: int = _MOST_SCHEMAS

    def of(self, schema: Mapping[str, Any], levels: int) -> dict[str, Any]:
        self.left -= 1
        if not levels or self.left < 0:
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(_referred(reference, self.root), levels - 1)
        alternatives = next((schema[key] for key in _ALTERNATIVES if schema.get(key)), None)
        if isinstance(alternatives, list):
            return {"anyOf": [self.of(one, levels - 1) for one in _schemas(alternatives)]}
        kept = {key: schema[key] for key in _KEPT if key in schema}
        if "type" not in kept and "properties" in schema:
            kept["type"] = "object"
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            of = cast(Mapping[str, Any], properties)
            kept["properties"] = {name: self.of(_schema(one), levels - 1) for name, one in of.items()}
            kept["additionalProperties"] = False
            required = schema.get("required")  # older drafts have true here
            kept["required"] = [name for name in of if isinstance(required, list) and name in required]
        if isinstance(schema.get("items"), Mapping):
            kept["items"] = self.of(_schema(schema["items"]), levels - 1)
        if isinstance(most := schema.get("maxItems"), int) and most <= _MAX_ITEMS:
            kept["maxItems"] = most
        return kept


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference within the document names; anything, where it names nothing."""
    if not reference.startswith("#/"):
        return {}
    value: Any = root
    for part in reference[2:].split("/"):
        value = _schema(value).get(part.replace("~1", "/").replace("~0", "~"))
    return _schema(value)


def _schema(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _schemas(values: Any) -> list[Mapping[str, Any]]:
    return [_schema(one) for one in cast(list[Any], values)]
