"""Fills a JSON Schema with the least that is valid, for replies and arguments that must be JSON."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

_QUESTION_NAME = re.compile(r"quer|question|pregunta|search|text|passage|prompt|input", re.I)
_MAX_DEPTH = 12


class CannotFill(ValueError):
    """A part of the schema has no simple value; `path` names it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


def fill(schema: Mapping[str, Any], question: str, parts: Sequence[str], path: str = "schema") -> Any:
    """A value that fits: required fields only, empty where allowed.

    Texts and lists of texts that are named for a question or a query get it, or its `parts`. Raises CannotFill.
    """
    if path.count(".") > _MAX_DEPTH:
        raise CannotFill(path, "nested too deeply")
    if "$ref" in schema:
        raise CannotFill(path, "`$ref` is not supported")
    for fixed in ([schema["const"]] if "const" in schema else [], _list(schema.get("enum"))):
        if fixed:
            return fixed[0]
    for combination in ("anyOf", "oneOf", "allOf"):
        for option in _list(schema.get(combination))[:1]:
            return fill(_object(option), question, parts, f"{path}.{combination}")
    return _of_type(_type(schema), schema, question, parts, path)


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "null")
    return str((_list(kind) or [kind])[0])


def _of_type(kind: str, schema: Mapping[str, Any], question: str, parts: Sequence[str], path: str) -> Any:
    match kind:
        case "object":
            properties = _object(schema.get("properties"))
            names = [str(name) for name in _list(schema.get("required"))]
            return {name: fill(_object(properties.get(name)), question, parts, f"{path}.{name}") for name in names}
        case "array":
            return _array(schema, question, parts, path)
        case "string":
            return _string(schema, question, path)
        case "integer" | "number":
            return _number(schema, path, whole=kind == "integer")
        case "boolean":
            return False
        case "null":
            return None
        case _:
            raise CannotFill(path, f"type `{kind}` is not supported")


def _array(schema: Mapping[str, Any], question: str, parts: Sequence[str], path: str) -> list[Any]:
    least = schema.get("minItems", 0)
    items = _object(schema.get("items"))
    if items.get("type") == "string" and _QUESTION_NAME.search(path.rsplit(".", 1)[-1]) and len(parts) >= least:
        return list(parts)[: schema.get("maxItems", len(parts))]
    if not isinstance(least, int) or least > 100:
        raise CannotFill(path, "`minItems` is too large")
    return [fill(items, question, parts, f"{path}.{index}") for index in range(least)]


def _string(schema: Mapping[str, Any], question: str, path: str) -> str:
    if "pattern" in schema:
        raise CannotFill(path, "`pattern` is not supported")
    if _QUESTION_NAME.search(path.rsplit(".", 1)[-1]):
        return question[: schema.get("maxLength", len(question))]
    least = schema.get("minLength", 0)
    if not isinstance(least, int) or least > 1000:
        raise CannotFill(path, "`minLength` is too large")
    return "-" * least


def _number(schema: Mapping[str, Any], path: str, *, whole: bool) -> int | float:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    value = max(0, low) if high is None or high >= 0 else high
    value += 1 if "exclusiveMinimum" in schema and value == low else 0
    if high is not None and value > high:
        raise CannotFill(path, "no number fits its bounds")
    return int(value) if whole else value


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
