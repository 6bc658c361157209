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
# Those whose name in the text the parser does not keep for certain.
_INFERRED_OUTPUTS: Mapping[type[Node], str] = {
    exp.Abs: "abs",
    exp.ArrayAgg: "array_agg",
    exp.CumeDist: "cume_dist",
    exp.DenseRank: "dense_rank",
    exp.Extract: "extract",
    exp.FirstValue: "first_value",
    exp.Floor: "floor",
    exp.Greatest: "greatest",
    exp.GroupConcat: "string_agg",
    exp.Initcap: "initcap",
    exp.JSONArrayAgg: "json_agg",
    exp.Lag: "lag",
    exp.LastValue: "last_value",
    exp.Lead: "lead",
    exp.Least: "least",
    exp.Left: "left",
    exp.Length: "length",
    exp.Lower: "lower",
    exp.Ntile: "ntile",
    exp.Nullif: "nullif",
    exp.PercentRank: "percent_rank",
    exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc",
    exp.Rank: "rank",
    exp.Round: "round",
    exp.RowNumber: "row_number",
    exp.SplitPart: "split_part",
    exp.Stddev: "stddev",
    exp.TimeToStr: "to_char",
    exp.TimestampTrunc: "date_trunc",
    exp.Upper: "upper",
    exp.Variance: "variance",
    exp.WidthBucket: "width_bucket",
}

# These take a whole row, and are called too where a column of the row is named so.
_ROW_FUNCTIONS = frozenset(
    """
    any_value array_agg concat count first_value hash_record json_agg jsonb_agg json_build_array jsonb_build_array lag
    last_value lead num_nonnulls num_nulls pg_column_size pg_typeof quote_literal quote_nullable record_out
    record_send row_to_json text to_json to_jsonb
    """.split()
)


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


class Inferred(str):
    """The name of a function's column, as we think. PostgreSQL's may differ, and then a use of it means another."""

    __slots__ = ()


class Anything(Inferred):
    """Stands for all columns of a table that nobody told us, but for what rows can be given to: `c.to_jsonb`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other not in _ROW_FUNCTIONS

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def output_name(node: Node) -> str | None:
    """The name that PostgreSQL gives to an unnamed output column, where we know it."""
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
    if isinstance(node, exp.WithinGroup):
        return output_name(node.this)
    inferred = _INFERRED_OUTPUTS.get(type(node))
    return _NAMED_OUTPUTS.get(type(node)) if inferred is None else Inferred(inferred)


def function_name(call: Node) -> str:
    if isinstance(call, exp.Dot):
        call = call.expression
    if isinstance(call, exp.ExplodingGenerateSeries):
        return "generate_series"
    return fold(call.name, False) if isinstance(call, exp.Anonymous) else ""


def name(node: Node) -> str:
    return fold(node.name, bool(node.args.get("quoted")))


def position(identifier: Node) -> int:
    """Where the name stands in the text; -1 when the parser made it up."""
    return int(identifier.meta.get("start", -1))


def optional_name(node: Node | None) -> str | None:
    return None if node is None else name(node)


def alias(alias: Node) -> str:
    return name(alias.this) if alias.args.get("this") else ""
