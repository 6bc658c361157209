"""Verified queries, a tenant's reviewed SQL with typed parameters: their JSON Schema, and their arguments as values."""

import hashlib
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, cast

from services.runtime.errors import InvalidField, ServiceError
from services.runtime.tenants import Parameter, SqlSource, VerifiedQuery
from services.sql_tool import verified_types
from services.sql_tool.catalog import Catalog
from services.sql_tool.hints import nearest
from services.sql_tool.parameters import refuse_constant
from services.sql_tool.verified_types import WrongValue

MAX_BYTES = 64 * 1024


def parameters_schema(query: VerifiedQuery) -> dict[str, Any]:
    """JSON Schema of the arguments, for the model's tool. Raises WrongValue when the file's parameters are wrong."""
    return {
        "type": "object",
        "properties": {name: _property(parameter) for name, parameter in query.parameters.items()},
        "required": [name for name, parameter in query.parameters.items() if parameter.default is None],
        "additionalProperties": False,
    }


def _property(parameter: Parameter) -> dict[str, Any]:
    low, high = verified_types.bounds(parameter)
    said = [parameter.description.strip().rstrip(".")]
    schema: dict[str, Any] = (
        _enumeration(parameter) if parameter.values else _within(verified_types.scalar(parameter)[0].schema, low, high)
    )
    if parameter.values:
        said.append("Values: " + "; ".join(_value(value, names) for value, names in parameter.values.items()))
    if between := verified_types.between(low, high).strip():
        said.append(f"Permitted {between}")
    if parameter.type.endswith("[]"):
        schema = {"type": "array", "items": schema, "maxItems": verified_types.MAX_ITEMS}
    if any(said):
        schema["description"] = ". ".join(part for part in said if part) + "."
    if parameter.default is not None:
        schema["default"] = _jsonable(verified_types.read(parameter, verified_types.from_yaml(parameter.default)))
    return schema


def _enumeration(parameter: Parameter) -> dict[str, Any]:
    values = [_jsonable(value) for value in verified_types.enumeration(parameter)]
    return {"type": "integer" if parameter.type.startswith("integer") else "string", "enum": values}


def _within(schema: Any, low: object, high: object) -> dict[str, Any]:
    """The type's schema with bounds of numbers; JSON Schema has none for dates."""
    limits = {
        key: int(bound) if bound == int(bound) else float(bound)
        for key, bound in (("minimum", low), ("maximum", high))
        if isinstance(bound, int | Decimal)
    }
    if "anyOf" not in schema:
        return {**schema, **limits}
    number, *others = schema["anyOf"]
    return {"anyOf": [{**number, **limits}, *others]}


def _value(value: str, names: Sequence[str]) -> str:
    return f"{value} ({', '.join(names)})" if names else value


def resolve(query: VerifiedQuery, arguments_json: str) -> list[object]:
    """The values of $1, $2 and so on. Decimals are exact, dates are ISO 8601 text.

    Raises InvalidField whose `field` is `arguments.<name>`, or `arguments_json` when that is no JSON object.
    """
    given = _parsed(arguments_json)
    for name in given:
        if name not in query.parameters:
            raise _unknown(name, query)
    return [_argument(name, parameter, given.get(name)) for name, parameter in query.parameters.items()]


def _argument(name: str, parameter: Parameter, value: object) -> object:
    field = f"arguments.{name}"
    try:
        if value is not None:
            return verified_types.read(parameter, value)
        if parameter.default is not None:  # models write null for what they leave out
            return verified_types.read(parameter, verified_types.from_yaml(parameter.default))
    except WrongValue as wrong:
        raise InvalidField(f"`{name}` must be {wrong}.", field=field) from None
    about = f" ({parameter.description.strip().rstrip('.')})" if parameter.description.strip() else ""
    raise InvalidField(f"`{name}` is missing{about}.", field=field)


def _unknown(name: str, query: VerifiedQuery) -> InvalidField:
    near = nearest(name[:80], query.parameters)
    known = f"Its parameters are {', '.join(query.parameters)}." if query.parameters else "It takes no arguments."
    shown = name[:64]
    message = (
        f"There is no parameter `{shown}`; did you mean `{near}`?" if near else f"There is no parameter `{shown}`."
    )
    return InvalidField(f"{message} {known}", field=f"arguments.{shown}")


def _parsed(arguments_json: str) -> dict[str, object]:
    if not arguments_json.strip():
        return {}
    if len(arguments_json.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidField(f"`arguments_json` is longer than {MAX_BYTES} bytes.", field="arguments_json")
    try:
        found: object = json.loads(
            arguments_json, parse_float=Decimal, parse_constant=refuse_constant, object_pairs_hook=_once_each
        )
    except (ValueError, RecursionError, ArithmeticError):
        found = None
    if not isinstance(found, dict):
        raise InvalidField(
            "The arguments must be one JSON object that names each parameter once.", field="arguments_json"
        )
    return cast(dict[str, object], found)


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def params_json(values: Sequence[object]) -> str:
    """The values as a JSON array that `Query` takes too; decimals are strings, which lose nothing."""
    return json.dumps([_jsonable(value) for value in values], ensure_ascii=False)


def _jsonable(value: object) -> object:
    if isinstance(value, list):
        return [_jsonable(item) for item in cast(list[object], value)]
    return format(value, "f") if isinstance(value, Decimal) else value


def definition_defect(query: VerifiedQuery) -> str:
    """What is wrong with the file's parameters and examples in themselves; empty when nothing is."""
    for name, parameter in query.parameters.items():
        if parameter.values and parameter.type.startswith("boolean"):
            return f"parameter `{name}`: true and false need no `values`"
        if names := verified_types.twice(parameter):
            return f"parameter `{name}`: `{names[0]}` stands for several of its values"
        try:
            verified_types.enumeration(parameter)
            low, high = verified_types.bounds(parameter)
            order = verified_types.scalar(parameter)[0].order
            if order is not None and low is not None and high is not None and order(low) > order(high):
                return f"parameter `{name}`: `minimum` is above `maximum`"
            if parameter.default is not None:
                verified_types.read(parameter, verified_types.from_yaml(parameter.default))
        except WrongValue as wrong:
            return f"parameter `{name}`: its bounds, values or default must be {wrong}"
    for example in query.examples:
        try:
            resolve(query, arguments_of(example.arguments))
        except ServiceError as error:
            return f"example `{example.question}`: {error.message}"
    return ""


def arguments_of(arguments: Any) -> str:
    """An example's arguments as the model would write them."""
    return json.dumps({name: verified_types.from_yaml(value) for name, value in arguments.items()}, default=str)


def version(source: SqlSource, query: VerifiedQuery, catalog: Catalog | None, tables: Sequence[str]) -> str:
    """Changes with the database, the statement, the parameters and the columns of the tables that it reads."""
    columns = {} if catalog is None else {table: list(catalog.columns.get(table, ())) for table in sorted(tables)}
    parameters = {name: one.model_dump_json() for name, one in query.parameters.items()}
    parts = (source.name, source.dsn_secret, source.database_schema, query.sql, parameters, columns)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
