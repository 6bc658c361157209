"""A Parsed as rows, for the way from a sandbox to the service."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from services.ingestion.parsed import Parsed, Unreadable
from services.runtime.sandbox_protocol import Refused

Rows = Callable[[bytes, str, str], Iterator[Any]]


def in_rows(parse: Callable[[bytes, str, str], Parsed]) -> Rows:
    """`parse` for a sandbox: a row with the head of what it understood, then one a block."""

    @wraps(parse)
    def rows(content: bytes, filename: str, content_type: str) -> Iterator[Any]:
        try:
            head = parse(content, filename, content_type).to_json()
        except Unreadable as error:
            raise Refused(str(error)) from None
        blocks = head.pop("blocks")
        yield head
        yield from blocks

    return rows


def parsed_from(rows: Iterator[Any]) -> Parsed:
    """The inverse; blocks are taken one by one, as the whole in plain values would take its size several times over."""
    head = next(rows)
    return Parsed.from_json(head | {"blocks": rows})
