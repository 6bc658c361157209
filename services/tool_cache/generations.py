"""What an entry depends on, and what an invalidation touches: names of scopes, each of which has its own generation.

A generation is the number of the last invalidation that touched a scope. An entry is good while no scope that it
depends on has a later one than the entry's snapshot.
"""

import re
from collections.abc import Iterable

from services.runtime.errors import InvalidField

# Names every entry of the tenant.
EVERYTHING = "*"
MOST_SOURCES = 64
_SOURCE = re.compile(r"\*|[a-z][a-z_]{0,31}:[^\x00-\x1f\x7f]{1,256}")


def require_sources(sources: Iterable[str], field: str) -> tuple[str, ...]:
    """The sources without repetitions. Raises InvalidField, naming `field`, for too many and for malformed ones."""
    found = tuple(dict.fromkeys(sources))
    if len(found) > MOST_SOURCES:
        raise InvalidField(f"`{field}` must be at most {MOST_SOURCES}.", field=field)
    for source in found:
        if not _SOURCE.fullmatch(source):
            raise InvalidField(f"`{field}` must look like `table:main/public.contracts`, or be `*`.", field=field)
    return found


def dependencies(tool: str, sources: Iterable[str]) -> list[str]:
    """The scopes that make a result of `tool` old, made from `sources`."""
    scopes = {EVERYTHING: None, f"tool:{tool}": None}
    for source in sources:
        kind, _, name = source.partition(":")
        scopes[source] = None
        if name.endswith("*"):  # made from all of a kind: any of them matters
            scopes[_any(kind)] = None
        elif source == EVERYTHING:
            scopes[_any("")] = None
        if kind == "table":
            scopes[f"source:{name.partition('/')[0]}"] = None
    return list(scopes)


def changes(tool: str, sources: Iterable[str]) -> list[str]:
    """The scopes that an invalidation of `tool`, if not empty, and of `sources` touches."""
    scopes = {_any(""): None}
    if tool:
        scopes[f"tool:{tool}"] = None
    for source in sources:
        kind, _, _ = source.partition(":")
        scopes[source] = None
        scopes[_any(kind)] = None
        if kind == "source":  # a database: all of its tables
            scopes[_any("table")] = None
    return list(scopes)


def _any(kind: str) -> str:
    return f"~{kind}"  # no source begins so
