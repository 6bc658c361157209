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
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, cast

from services.runtime.errors import InvalidField

# Part of every key: another canonical form makes what is stored unreachable, not misread.
_SCHEMA = "v3"
_LONGEST_ARGUMENTS = 64 * 1024
_LONGEST_VERSION = 512
_DEEPEST = 64
_TOOL = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


@dataclass(frozen=True)
class CallKey:
    """Identifies one call of one tenant: equal where `material` is.

    `arguments` is the canonical form; `access` stands for the caller's labels; `day` is the date that the call's words
    depend on, if they do; `material` is all of it as bytes and `digest` its SHA-256 in hex.
    """

    tenant: str
    tool: str
    version: str
    access: str
    arguments: str
    day: str
    material: bytes
    digest: str


class _Number(str):
    """A number with a fraction or an exponent, as it was written."""


def call_key(
    tenant: str, tool: str, version: str, arguments_json: str, labels: Collection[str] = (), day: str = ""
) -> CallKey:
    """The key of a call by someone who holds `labels`: other labels open other documents.

    Raises InvalidField for what is no tool name or no proper JSON object.
    """
    require_tool(tool, "call.tool")
    if len(version) > _LONGEST_VERSION:
        raise InvalidField(f"`call.version` must have at most {_LONGEST_VERSION} characters.", field="call.version")
    access = json.dumps(sorted(set(labels))) if labels else "[]"
    return _made(tenant, tool, version, access, canonical(arguments_json), day)


def argument_text(key: CallKey, argument: str) -> str:
    """The call's free text. Raises InvalidField when `argument` names no text among its arguments."""
    text = _read(key.arguments).get(argument)
    if not isinstance(text, str) or isinstance(text, _Number):
        raise InvalidField(
            "`call.semantic_argument` names no text among the arguments.", field="call.semantic_argument"
        )
    return text


def scope(key: CallKey, argument: str) -> str:
    """What calls must have in common before the texts of `argument` are compared: SHA-256 in hex of all the rest."""
    others = {name: value for name, value in _read(key.arguments).items() if name != argument}
    parts = key.tenant, key.access, key.tool, key.version, argument, _write(others, 0)
    return hashlib.sha256(_joined(_SCHEMA, *parts)).hexdigest()


def with_text(key: CallKey, argument: str, text: str, day: str = "") -> CallKey:
    """The key of the same call with another text."""
    arguments = _write({**_read(key.arguments), argument: text}, 0)
    return _made(key.tenant, key.tool, key.version, key.access, arguments, day)


def _made(tenant: str, tool: str, version: str, access: str, arguments: str, day: str) -> CallKey:
    material = _joined(_SCHEMA, tenant, access, tool, version, day, arguments)
    return CallKey(tenant, tool, version, access, arguments, day, material, hashlib.sha256(material).hexdigest())


def _joined(*parts: str) -> bytes:
    """The parts, each with its length before it: none can run into the next one."""
    written = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in written)


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
        written = _write(_read(arguments_json), 0)
        written.encode()
    except UnicodeEncodeError:
        raise _refuse("has half a surrogate pair") from None
    except RecursionError:
        raise _refuse(f"is nested deeper than {_DEEPEST}") from None
    except ValueError:  # not JSON, or an integer of thousands of digits
        raise _refuse("is not valid JSON") from None
    if not written.startswith("{"):
        raise _refuse("is not a JSON object")
    return written


def _read(arguments_json: str) -> dict[str, Any]:
    return _DECODER.decode(arguments_json)


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
        return "{" + ",".join(f"{encode_basestring(k)}:{_write(pairs[k], depth + 1)}" for k in sorted(pairs)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_write(item, depth + 1) for item in cast(list[Any], value)) + "]"
    if isinstance(value, str):
        return str(value) if isinstance(value, _Number) else encode_basestring(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)  # an integer


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse_constant)
