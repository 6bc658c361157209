"""Where the members of a JSON object are, so that one can be changed and the other bytes stay as they were."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

# Strings, arrays of nothing but numbers (prompts of token ids), and what structures the rest.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|\[[-+.\deE,\s]*+\]|[{}\[\],]', re.DOTALL)


class Member(NamedTuple):
    """One member of the outermost object, by offsets: `start` of its name, its `value`, and `end` of that."""

    name: str
    start: int
    value: int
    end: int


def members(text: bytes) -> Iterator[Member]:
    """Members of the outermost object of valid JSON, in order."""
    depth = 0
    name, start, value = "", -1, -1
    for found in _TOKEN.finditer(text):
        token = found.group()
        if token[0] == 34:  # a quotation mark
            if depth == 1 and start < 0:
                start = found.start()
                name = json.loads(token)
                value = text.index(b":", found.end()) + 1
        elif token in (b"{", b"["):
            depth += 1
        elif depth == 1 and token in (b",", b"}"):
            if start >= 0:
                yield Member(name, start, value, found.start())
            start = -1
            depth -= token == b"}"
        elif token in (b"}", b"]"):
            depth -= 1


def replaced(text: bytes, name: str, value: bytes) -> bytes:
    """The object with another value of every member of that name: of two, parsers do not agree on one."""
    for member in reversed([member for member in members(text) if member.name == name]):
        text = text[: member.value] + value + text[member.end :]
    return text


def without(text: bytes, name: str) -> bytes:
    """The object without the members of that name."""
    for member in reversed([member for member in members(text) if member.name == name]):
        before, after = text[: member.start].rstrip(), text[member.end :]
        if after.startswith(b","):
            after = after[1:].lstrip()
        else:
            before = before.removesuffix(b",")
        text = before + after
    return text
