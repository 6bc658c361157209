"""Reads names and parts out of the nodes of a parsed statement."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from sqlglot import exp

from services.sql_tool.lexer import fold

Node = exp.Expr

_NAMED_OUTPUTS: Mapping[type[Node], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Coalesce: "coalesce",
}


def children(node: Node) -> list[Node]:
    return [child for _, child in parts_by_key(node)]


def parts_by_key(node: Node) -> Iterable[tuple[str, Node]]:
    for key, value in node.args.items():
        for item in cast(Sequence[object], value) if isinstance(value, list) else (value,):
            if isinstance(item, exp.Expr):
                yield key, item


def descendants(node: Node) -> Iterable[Node]:
    waiting = [node]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += children(at)


def unpacked(node: Node | None) -> list[Node]:
    if node is None:
        return []
    return list(node.expressions) if isinstance(node, exp.Tuple) else [bare(node)]


def bare(node: Node) -> Node:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def plain_name(node: Node) -> str | None:
    """The name of an unqualified column, else None."""
    if isinstance(node, exp.Column) and not node.args.get("table") and isinstance(node.this, exp.Identifier):
        return name(node.this)
    return None


def output_name(node: Node) -> str | None:
    """The name that PostgreSQL gives to an unnamed output column, where that is certain."""
    node = bare(node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return name(node.this)
    if isinstance(node, exp.Subquery) and node.args.get("alias"):
        return alias(node.args["alias"])
    if isinstance(node, exp.Filter | exp.Window):
        return output_name(node.this)
    if isinstance(node, exp.Cast):
        return plain_name(node.this)
    if isinstance(node, exp.Anonymous):
        return fold(node.name, False)
    return _NAMED_OUTPUTS.get(type(node))


def function_name(call: Node) -> str:
    if isinstance(call, exp.Dot):
        call = call.expression
    if isinstance(call, exp.ExplodingGenerateSeries):
        return "generate_series"
    return fold(call.name, False) if isinstance(call, exp.Anonymous) else ""


def name(node: Node) -> str:
    return fold(node.name, bool(node.args.get("quoted")))


def optional_name(node: Node | None) -> str | None:
    return None if node is None else name(node)


def alias(alias: Node) -> str:
    return name(alias.this) if alias.args.get("this") else ""
