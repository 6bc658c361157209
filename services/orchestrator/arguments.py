"""How a tool's arguments are written and read: by our own types, or by a JSON Schema that its service checks."""

import difflib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NoReturn, Protocol, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from services.orchestrator.foreign_schema import ForeignSchema

# The tool cache takes 64 levels of a call; no tool needs as many.
_DEEPEST = 32
_MAX_NAME_CHARS = 100
# An error travels in the metadata of a call, which has no room for more.
_MAX_NAMED = 40


class WrongArguments(Exception):
    """What is wrong with arguments, in words for the model to mend them by. `field` names it to programs."""

    def __init__(self, message: str, field: str = "arguments_json") -> None:
        super().__init__(message)
        self.field = field


class ArgumentForm(Protocol):
    """The arguments of a tool."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of an object, for the model."""
        ...

    def read(self, text: str) -> Any:
        """The arguments as the tool takes them, from what the model wrote. Raises WrongArguments."""
        ...

    def canonical(self, arguments: Any) -> str:
        """The arguments as one JSON text, the same for equal ones."""
        ...


class Arguments(BaseModel):
    """Base of all arguments of ours: what is not in the schema is refused, so that the model learns of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _null_means_absent(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        fields = cast(dict[str, Any], values)
        return {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True)
class TypedForm:
    """Arguments of a type of ours."""

    type: type[Arguments]

    @property
    def schema(self) -> Mapping[str, Any]:
        """See ArgumentForm."""
        return _schema(self.type)

    def read(self, text: str) -> Arguments:
        """See ArgumentForm."""
        _read_json(text)  # what the parser below makes one thing of (a name twice) is refused here
        try:
            return self.type.model_validate_json(text or "{}")
        except ValidationError as error:
            raise WrongArguments(_what_is_wrong(error)) from None

    def canonical(self, arguments: Arguments) -> str:
        """See ArgumentForm."""
        return json.dumps(arguments.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class ForeignForm:
    """Arguments by a JSON Schema that came from the tool's service, which checks them once more.

    `null` means absent, as many models write it.
    """

    schema: Mapping[str, Any]

    def read(self, text: str) -> dict[str, Any]:
        """See ArgumentForm."""
        arguments = {key: one for key, one in _read_json(text).items() if one is not None}
        if complaints := self._checked.complaints(arguments):
            place = complaints[0].place
            raise WrongArguments(
                "invalid arguments: " + "; ".join(map(str, complaints)),
                f"arguments.{place}" if place else "arguments_json",
            )
        return arguments

    @cached_property
    def _checked(self) -> ForeignSchema:
        return ForeignSchema(self.schema)

    def canonical(self, arguments: dict[str, Any]) -> str:
        """See ArgumentForm."""
        return json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def unknown_tool(name: str, names: Sequence[str]) -> str:
    """What is said of a tool that there is not: the one that may have been meant, and all that there are."""
    near = difflib.get_close_matches(name, names, 1)
    meant = f"did you mean `{near[0]}`? " if near else ""
    return f"there is no tool `{short_name(name)}`; {meant}there are: {listed(names)}"


def short_name(name: str) -> str:
    """A name that somebody wrote, as far as it is repeated to him."""
    return name if len(name) <= _MAX_NAME_CHARS else name[:_MAX_NAME_CHARS] + "…"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, and how many more there are."""
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "") or "none"


def strict_json(text: str) -> Any:
    """The value of a JSON text that whoever reads it takes for the same.

    Raises ValueError for what is not JSON, a name twice, half a surrogate pair, and nesting beyond what services take.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if is_nested(value, _DEEPEST):
        raise ValueError("nested too deeply")
    json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    return value


def is_nested(value: Any, levels: int) -> bool:
    """Whether lists and objects in it are nested deeper than `levels`. Itself it does not nest."""
    level = [value]
    for _ in range(levels + 1):
        level = [item for one in level if isinstance(one, dict | list) for item in _items(one)]
        if not level:
            return False
    return True


def _items(value: Any) -> Collection[Any]:
    return cast(dict[str, Any], value).values() if isinstance(value, dict) else cast(list[Any], value)


def _read_json(text: str) -> dict[str, Any]:
    try:
        value = strict_json(text or "{}")
    except ValueError as error:
        raise WrongArguments(f"invalid arguments: Invalid JSON: {_short(error)}") from None
    if not isinstance(value, dict):
        raise WrongArguments("invalid arguments: they must be a JSON object")
    return cast(dict[str, Any], value)


@lru_cache(maxsize=256)
def _schema(arguments: type[Arguments]) -> Mapping[str, Any]:
    """JSON Schema of the arguments, without what pydantic adds for people."""
    whole = arguments.model_json_schema()
    properties = {
        name: {key: value for key, value in prop.items() if key != "title" and not (key == "default" and value is None)}
        for name, prop in whole["properties"].items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": whole.get("required", []),
        "additionalProperties": False,
    }


def _what_is_wrong(error: ValidationError) -> str:
    """Each wrong argument by name."""
    said: list[str] = []
    for one in error.errors(include_url=False, include_input=False):
        where = ".".join(map(str, one["loc"]))
        said.append(f"{where}: {one['msg']}" if where else one["msg"])
    return "invalid arguments: " + "; ".join(said)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name appears twice")
    return found


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _short(error: ValueError) -> str:
    # How Python says what half a surrogate pair is helps no model.
    return "half a surrogate pair" if isinstance(error, UnicodeError) else str(error)[:200]
