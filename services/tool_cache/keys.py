"""What makes two tool calls the same: a canonical form of the arguments and a digest over all that matters.

Arguments are compared as they were written: object keys in any order are the same, but 1, 1.0, "1" and true are not,
nor are null and a missing key, nor two Unicode forms of a word. A difference that does not matter costs one more run
of the tool; one that was wrongly ignored would answer with another call's result. Defaults and normal forms that a
tool knows of are its caller's to fill in.
"""

import hashlib
import json
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

from services.runtime.errors import InvalidField

# Part of every key: another canonical form makes what is stored unreachable, not misread.
_SCHEMA = b"v2"
_LONGEST_ARGUMENTS = 64 * 1024
_LONGEST_VERSION = 512
_DEEPEST = 64
_TOOL = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


@dataclass(frozen=True)
class CallKey:
    """Identifies one call of one tenant. `arguments` is the canonical form."""

    tenant: str
    tool: str
    version: str
    arguments: str
    digest: str = field(compare=False)


class _Number(str):
    """A number with a fraction or an exponent, as it was written."""


def call_key(tenant: str, tool: str, version: str, arguments_json: str, labels: Collection[str] = ()) -> CallKey:
    """The key of a call by someone who holds `labels`: other labels open other documents.

    Raises InvalidField for what is no tool name or no proper JSON object.
    """
    require_tool(tool, "call.tool")
    if len(version) > _LONGEST_VERSION:
        raise InvalidField(f"`call.version` must have at most {_LONGEST_VERSION} characters.", field="call.version")
    arguments = canonical(arguments_json)
    digest = hashlib.sha256()
    access = json.dumps(sorted(set(labels)))
    for part in (_SCHEMA, *(text.encode() for text in (tenant, access, tool, version, arguments))):
        # With its length before it, no part can run into the next one.
        digest.update(len(part).to_bytes(8, "big") + part)
    return CallKey(tenant, tool, version, arguments, digest.hexdigest())


def require_tool(tool: str, field: str) -> None:
    """Raises InvalidField, naming `field`, for a malformed tool name."""
    if not _TOOL.fullmatch(tool):
        raise InvalidField(f'`{field}` must be 1 to 128 letters, digits and "_.:/-".', field=field)


def canonical(arguments_json: str) -> str:
    """The JSON object with keys in order of their code points and no spaces; numbers exactly as meant.

    Raises InvalidField when it is no object, or has duplicate keys, NaN, infinities or lone surrogates.
    """
    if len(arguments_json) > _LONGEST_ARGUMENTS:
        raise _refuse(f"has more than {_LONGEST_ARGUMENTS} characters")
    try:
        value = json.loads(
            arguments_json, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse_constant
        )
        written = _write(value, 0)
        written.encode()
    except UnicodeEncodeError:
        raise _refuse("has half a surrogate pair") from None
    except RecursionError:
        raise _refuse(f"is nested deeper than {_DEEPEST}") from None
    except ValueError:  # not JSON, or an integer of thousands of digits
        raise _refuse("is not valid JSON") from None
    if not isinstance(value, dict):
        raise _refuse("is not a JSON object")
    return written


def _refuse(what: str) -> InvalidField:
    return InvalidField(f"`call.arguments_json` {what}.", field="call.arguments_json")


def _refuse_constant(name: str) -> float:
    raise _refuse(f"has {name}, which is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _refuse("has a key twice")
    return found


def _finite(literal: str) -> _Number:
    if math.isinf(float(literal)):
        raise _refuse("has a number that is too large")
    return _Number(literal)


def _write(value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        raise _refuse(f"is nested deeper than {_DEEPEST}")
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value)
        return "{" + ",".join(f"{_quote(k)}:{_write(pairs[k], depth + 1)}" for k in sorted(pairs)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_write(item, depth + 1) for item in cast(list[Any], value)) + "]"
    if isinstance(value, _Number):
        return str(value)
    return _quote(value)


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
