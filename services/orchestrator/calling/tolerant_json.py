"""Reads JSON as models write it: single quotes, trailing commas, Python's literals, braces that are missing at the end.

Only where one reading is possible; everything else is left to the model, who can say it again.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import json_repair

from services.orchestrator.arguments import strict_json

# The library's time grows with the nesting, and no call is as large.
_MAX_CHARS, _MAX_OPEN = 64_000, 200
# Strings, those in single quotes only where one can begin, and brackets. `open`: a string that never ends, from where
# nothing needs to be looked at. Each alternative is tried once a place: the time is linear.
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"'
    r"|[{\[,:]\s*+'(?:[^'\\]|\\.|'(?!\s*+(?:[,:}\]]|$)))*+'"
    r"|(?P<open>[{\[,:]\s*+'|\")"
    r"|[{}\[\]]",
    re.DOTALL,
)
_SEPARATORS = re.compile(r"(?:[\s;,]|<\|(?:eom_id|eot_id|im_end)\|>|</s>)*")
_STRAY = re.compile(r"[\s;,}\]]*")
_ESCAPE, _ESCAPED = re.compile(r"\\(.)", re.DOTALL), "\"'\\/bfnrtu"
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_NO_LETTER, _NONE = re.compile(r"[\W_]+"), re.compile(r"\bNone\b")
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=lambda pairs: _each_once(pairs))
_FENCE = re.compile(r"\s*```[a-zA-Z_]*\s*\n?(.*?)(?:\n?\s*```)?\s*", re.DOTALL)


class NotReadable(ValueError):
    """A text is no JSON, or may be read in several ways; the message says what is wrong, in words for the model."""


def read_object(text: str, *, cut: bool = False) -> dict[str, Any]:
    """The one JSON object that `text` is meant to be. `cut`: the text ends where no more could be written.

    Raises NotReadable. Takes time linear in the length.
    """
    values = read_values(text, cut=cut)
    if len(values) != 1 or not isinstance(values[0], dict):
        raise NotReadable("it must be one JSON object")
    return cast(dict[str, Any], values[0])


def read_values(text: str, *, cut: bool = False) -> list[Any]:
    """The JSON values that `text` holds and nothing else, separated by `;`, `,` or white space. Raises NotReadable."""
    if len(text) > _MAX_CHARS:
        raise NotReadable(f"it is longer than {_MAX_CHARS} characters")
    text = unfenced(text)
    found: list[Any] = []
    at = _end(_SEPARATORS, text, 0)
    while at < len(text):
        value, at = _next(text, at, cut=cut)
        found.append(value)
        at = _end(_SEPARATORS, text, at)
        # One brace too many is a slip, and can mean nothing else.
        if at < len(text) and text[at] in "}]":
            at = _end(_STRAY, text, at)
    return found


def unfenced(text: str) -> str:
    """`text` without the code fence that is around all of it."""
    match = _FENCE.fullmatch(text)
    return match[1] if match and "```" not in match[1] else text


def _next(text: str, at: int, *, cut: bool) -> tuple[Any, int]:
    if text[at] not in "{[":
        raise NotReadable(f"`{text[at : at + 20]}` is no JSON")
    try:
        value, end = _DECODER.raw_decode(text, at)
        return strict_json(json.dumps(value)), end
    except NotReadable:
        raise
    except RecursionError:
        raise NotReadable("nested too deeply") from None
    except ValueError:
        return _repaired(text, at, cut=cut)


def _repaired(text: str, at: int, *, cut: bool) -> tuple[Any, int]:
    end = _end_of_value(text, at)
    if end is None:
        if cut or text.rstrip()[-1] in ",:{[":
            raise NotReadable("it breaks off")
        end = len(text)
    piece = text[at:end]
    if piece.count("{") + piece.count("[") > _MAX_OPEN:
        raise NotReadable("nested too deeply")
    if any(one not in _ESCAPED for one in _ESCAPE.findall(piece)):
        raise NotReadable("it has an escape that JSON has not")
    try:
        value: Any = json_repair.loads(piece, skip_json_loads=True)
        strict_json(json.dumps(value))
    except (ValueError, RecursionError):
        raise NotReadable("it is no JSON") from None
    if not isinstance(value, dict | list) or _letters(piece) != _letters(json.dumps(value, ensure_ascii=False)):
        raise NotReadable("it is no JSON")  # the repair would have left something out
    if any(_is_doubtful(one) for one in _texts(value)):
        raise NotReadable("its quotes do not match")
    return cast(Any, value), end


def _end_of_value(text: str, at: int) -> int | None:
    """Where the object or list that begins at `at` ends; None where only closing braces are missing.

    Raises NotReadable where a string does not end.
    """
    depth = 0
    for match in _TOKEN.finditer(text, at):
        token = match[0]
        if match.lastgroup == "open":
            raise NotReadable("a string in it does not end")
        depth += (token[0] in "{[") - (token[0] in "}]")
        if not depth:
            return match.end()
    return None


def _is_doubtful(value: str) -> bool:
    """Whether a string ends in a quote that began nowhere: it was closed too early, or too late."""
    return value[-1:] in ("'", '"') and _APOSTROPHE.sub("", value).count(value[-1]) % 2 == 1


def _letters(text: str) -> str:
    """What must be the same before and after a repair."""
    return _NO_LETTER.sub("", _NONE.sub("null", text)).casefold()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in cast(dict[str, Any], value).values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in cast(list[Any], value):
            yield from _texts(one)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotReadable("a name appears twice")
    return found


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
