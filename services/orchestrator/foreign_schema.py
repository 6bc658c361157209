"""Checks arguments against a JSON Schema that somebody else wrote (draft 2020-12): its size and its words are not ours.

Nothing is fetched, no regular expression of it is run, and the work has an end. What cannot be checked within that is
left to the service that the tool belongs to.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import NoSuchResource

_MAX_SCHEMA_CHARS, _MAX_STEPS = 256_000, 5_000
_MAX_ERRORS, _MAX_ERROR_CHARS = 5, 200

_Check = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]
_steps: ContextVar[list[int]] = ContextVar("steps")


class _TooMuchWork(Exception):
    """A schema that refers to itself over and over."""


def _nowhere(uri: str) -> Any:
    raise NoSuchResource(ref=uri)


def _counted(check: _Check) -> _Check:
    def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _steps.get()[0] += 1
        if _steps.get()[0] > _MAX_STEPS:
            raise _TooMuchWork
        yield from check(validator, value, instance, schema)

    return counting


def _unchecked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    yield from ()


_KNOWN = cast(Mapping[str, _Check], Draft202012Validator.VALIDATORS)
# Whoever wrote a pattern could keep Python's engine busy for ever; with patterns for names go the rules about the rest.
# Items that are unique are compared each with each.
_COSTLY = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "uniqueItems")
_CHECKS = {name: _counted(check) for name, check in _KNOWN.items()} | dict.fromkeys(_COSTLY, _unchecked)
_Validator = cast(Any, validators).extend(Draft202012Validator, _CHECKS)
_REGISTRY: Registry[Any] = Registry(retrieve=_nowhere)  # pyright: ignore[reportCallIssue]


@dataclass(frozen=True)
class Complaint:
    """Something that is wrong. `place`: the argument, and what of it, by names and positions; empty for all of them."""

    place: str
    text: str

    def __str__(self) -> str:
        """As one line."""
        return f"{self.place}: {self.text}" if self.place else self.text


class ForeignSchema:
    """A schema of another. Making one never raises."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        fits = len(json.dumps(schema)) <= _MAX_SCHEMA_CHARS
        self._validator = _Validator(_without_name_rules(schema), registry=_REGISTRY) if fits else None

    def complaints(self, arguments: Mapping[str, Any]) -> list[Complaint]:
        """What is wrong, such as `filter.year: 'x' is not of type 'integer'`; a few at most."""
        if self._validator is None:
            return []
        token = _steps.set([0])
        try:
            errors: list[ValidationError] = list(islice(self._validator.iter_errors(arguments), _MAX_ERRORS))
            return list(dict.fromkeys(_complaint(error) for error in errors))
        except Exception:  # whatever a strange schema makes the library raise
            return []
        finally:
            _steps.reset(token)


def _without_name_rules(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where names may follow a pattern, which is not run, no name is one too many."""
    if "patternProperties" in schema:
        return {key: value for key, value in schema.items() if key != "additionalProperties"}
    return schema


def _complaint(error: ValidationError) -> Complaint:
    place = ".".join(str(part) for part in error.absolute_path)
    text = " ".join(str(error.message).split())
    return Complaint(place, text if len(text) <= _MAX_ERROR_CHARS else text[:_MAX_ERROR_CHARS] + "…")
