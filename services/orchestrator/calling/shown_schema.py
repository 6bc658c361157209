"""The JSON Schema of arguments as a model reads it: what tells it how to call, without what only a check needs."""

from collections.abc import Mapping
from typing import Any, cast

# A call is checked against the whole schema, and the complaint says what is wrong: these bounds are hardly ever met,
# and every turn would read them. A pattern is kept: it may be all that says how a value is written.
_ONLY_CHECKED = frozenset(("minLength", "maxLength", "minItems", "maxItems"))
# A decimal as text, as the parameters of verified queries may be written.
DECIMAL_TEXT = {"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?$"}
_OF_SCHEMAS = ("properties", "$defs", "definitions")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not")


def shown(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` without bounds of lengths; a number whose digits may also come as a text is a number."""
    kept = {key: _shown(key, value) for key, value in schema.items() if key not in _ONLY_CHECKED}
    match kept.get("anyOf"):
        case [{"type": "number"} as number, text] if text == DECIMAL_TEXT:
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
