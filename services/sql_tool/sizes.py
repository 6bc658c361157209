"""Bounds what a few words can make: one call of repeat would fill a cell with hundreds of megabytes."""

import re
from collections.abc import Iterable

from sqlglot import exp

from services.runtime.errors import NotPermitted
from services.sql_tool import nodes
from services.sql_tool.lexer import fold
from services.sql_tool.nodes import Node

MAX_CHARACTERS = 10_000
MAX_STEPS = 10_000_000
_NAMES = ("repeat", "lpad", "rpad")
_WIDTH = re.compile(r"%(?:\d{1,9}\$)?-?(\*|\d*)")


def check(root: Node) -> None:
    """Literal counts must be small, those of repeat all together: WITH can nest them out of sight.

    Raises NotPermitted (size).
    """
    longest, product = 1, 1
    for call in root.find_all(exp.Repeat, exp.Pad, exp.Anonymous, exp.Format, exp.ExplodingGenerateSeries):
        if isinstance(call, exp.ExplodingGenerateSeries):
            _check_series(call)
        elif isinstance(call, exp.Format) or fold(call.name, False) == "format":
            longest = max(longest, _formatted(call))
        elif not isinstance(call, exp.Anonymous) or fold(call.name, False) in _NAMES:
            text, count = _arguments(call)
            times = _bound(count)
            if isinstance(call, exp.Pad) or fold(call.name, False) in ("lpad", "rpad"):
                longest = max(longest, times)
            elif isinstance(text, exp.Literal):
                longest = max(longest, times * len(text.name))
            else:
                product *= max(times, 1)
        if longest * product > MAX_CHARACTERS:
            raise _too_long()


def _arguments(call: Node) -> tuple[Node | None, Node | None]:
    given = [*call.expressions] if isinstance(call, exp.Anonymous) else [call.this, _count(call)]
    return (given[0] if given else None), (given[1] if len(given) > 1 else None)


def _count(call: Node) -> Node | None:
    return call.args.get("times") or call.args.get("expression")


def _bound(count: Node | None) -> int:
    """The most that the count can be; more than is permitted where that cannot be told."""
    while isinstance(count, exp.Paren | exp.Cast):
        count = count.this
    if isinstance(count, exp.Literal) and not count.is_string and count.name.isdecimal():
        return int(count.name[:9])
    if isinstance(count, exp.Least):
        return min(_bound(item) for item in (count.this, *count.expressions) if item is not None)
    return 0 if isinstance(count, exp.Neg) and isinstance(count.this, exp.Literal) else MAX_CHARACTERS + 1


def _formatted(call: Node) -> int:
    """The widest field of a format, which must be a literal."""
    template = nodes.bare(call.this if isinstance(call, exp.Format) else (call.expressions or [exp.Null()])[0])
    if not isinstance(template, exp.Literal):
        raise NotPermitted(
            "format needs its text as a literal.", rule="size", hint="Write the text of format(…) into the statement."
        )
    widths: Iterable[str] = _WIDTH.findall(template.name)
    if any(width == "*" for width in widths):
        raise _too_long()
    return max((int(width[:9]) for width in _WIDTH.findall(template.name) if width), default=1)


def _check_series(call: exp.ExplodingGenerateSeries) -> None:
    bounds = [_integer(call.args.get(key)) for key in ("start", "end")]
    step = call.args.get("step")
    by = 1 if step is None else _integer(step)
    if None not in bounds and by and abs((bounds[1] or 0) - (bounds[0] or 0)) // abs(by) > MAX_STEPS:
        raise NotPermitted(
            f"generate_series makes more than {MAX_STEPS} rows.", rule="size", hint="Write a shorter series."
        )


def _integer(node: Node | None) -> int | None:
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg | exp.Cast):
        sign *= -1 if isinstance(node, exp.Neg) else 1
        node = node.this
    plain = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
    return sign * int(node.name[:18]) if plain and node is not None else None


def _too_long() -> NotPermitted:
    return NotPermitted(
        f"repeat, lpad, rpad and format make at most {MAX_CHARACTERS} characters in all, by literal counts.",
        rule="size",
        hint="Write a small number as the count, or least(…, 100).",
    )
