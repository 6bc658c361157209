"""The JSON Schema of arguments as a model reads it: what tells it how to call, without what only a check needs."""

from collections.abc import Mapping
from typing import Any, cast

# A call is checked against the whole schema, and the complaint says what is wrong: bounds of texts and lists are hardly
# ever met, and every turn would read them.
_ONLY_CHECKED = frozenset(("minLength", "maxLength", "minItems", "maxItems", "pattern"))
_OF_SCHEMAS = ("properties", "$defs", "definitions")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not")


def shown(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` without bounds of lengths and patterns; a number that may also come as a text is a number."""
    kept = {key: _shown(key, value) for key, value in schema.items() if key not in _ONLY_CHECKED}
    match kept.get("anyOf"):
        case [{"type": "number" | "integer"} as number, {"type": "string", **more}] if not more:
            del kept["anyOf"]
            return {**number, **kept}
        case _:
            return kept


def _shown(key: str, value: Any) -> Any:
    if key in _OF_SCHEMAS and isinstance(value, dict):
        return {name: _of(one) for name, one in cast(dict[str, Any], value).items()}
    if key in _LISTS_OF_SCHEMAS and isinstance(value, list):
        return [_of(one) for one in cast(list[Any], value)]
    return _of(value) if key in _SCHEMAS else value


def _of(value: Any) -> Any:
    return shown(cast(dict[str, Any], value)) if isinstance(value, dict) else value
