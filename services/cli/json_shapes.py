"""JSON of others, read without trust: what has not the shape that is asked for is empty."""

from collections.abc import Mapping
from typing import Any, cast


def mapping(value: object) -> Mapping[str, Any]:
    """An object of JSON; empty for anything else."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def entries(value: object) -> list[Mapping[str, Any]]:
    """A list of objects of JSON; empty for anything else."""
    return [mapping(one) for one in cast(list[object], value)] if isinstance(value, list) else []


def first(value: object) -> Mapping[str, Any]:
    """The first object of a list of JSON; empty where there is none."""
    found = entries(value)
    return found[0] if found else {}
