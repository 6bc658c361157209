"""Which constructs a statement may hold, and what to say of the others."""

import difflib
from collections.abc import Mapping

from sqlglot import exp

from services.runtime.errors import NotPermitted
from services.sql_tool import nodes, vocabulary
from services.sql_tool.lexer import fold
from services.sql_tool.nodes import Node

_MODIFIERS = {"with_", "order", "limit", "offset"}
_KEYS: Mapping[type[Node], set[str]] = {
    exp.Select: _MODIFIERS | {"expressions", "from_", "joins", "where", "group", "having", "windows", "distinct"},
    exp.SetOperation: _MODIFIERS | {"this", "expression", "distinct"},
    exp.Subquery: _MODIFIERS | {"this", "alias"},
    exp.Values: {"expressions", "alias"},
    exp.Table: {"this", "db", "catalog", "alias", "joins", "sample", "only", "ordinality"},
    exp.Unnest: {"expressions", "alias", "offset"},
    exp.Lateral: {"this", "alias", "ordinality", "view", "outer"},
    exp.Join: {"this", "on", "using", "kind", "side", "method"},
    exp.Group: {"expressions", "grouping_sets", "cube", "rollup"},
    exp.TableAlias: {"this", "columns"},
    exp.TableSample: {"method", "percent", "seed"},
    exp.Column: {"this", "table", "db"},
    exp.CTE: {"this", "alias", "materialized"},
    exp.Window: {"this", "partition_by", "order", "spec", "alias", "over"},
    exp.Ordered: {"this", "desc", "nulls_first"},
}
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Into)


def check_kind(node: Node) -> None:
    kind = type(node)
    if isinstance(node, _WRITES):
        raise NotPermitted("Only reading is permitted.", rule="write", hint="Write one SELECT.")
    if isinstance(node, exp.Anonymous) and fold(node.name, False) not in vocabulary.FUNCTIONS:
        raise unknown_function(node.name)
    if kind not in vocabulary.PLAIN_NODES and kind not in vocabulary.FUNCTION_NODES:
        raise unknown_function(node.sql_name()) if isinstance(node, exp.Func) else unknown(node)
    if _growing(node):
        _check_growth(node)


def _growing(node: Node) -> bool:
    if isinstance(node, exp.Anonymous):  # with pg_catalog before it
        return fold(node.name, False) in vocabulary.GROWING_NAMES and len(node.expressions) > 1
    return isinstance(node, vocabulary.GROWING)


def _check_growth(node: Node) -> None:
    """The literal number of characters that these make, nested ones multiplied, must be small."""
    product = 1
    at: Node | None = node
    while at is not None:
        if _growing(at):
            times = at.args.get("times") or at.args.get("expression") or (at.expressions or [None] * 2)[1]
            count = int(times.name) if isinstance(times, exp.Literal) and times.name.isdecimal() else None
            if count is None:
                product = vocabulary.MAX_REPEATS + 1
            else:
                product *= max(count, 1)
        at = at.parent
    if product > vocabulary.MAX_REPEATS:
        raise NotPermitted(
            f"repeat, lpad and rpad need a literal count, at most {vocabulary.MAX_REPEATS} in all.",
            rule="size",
            hint="Write a small number as the count.",
        )


def check_type(node: exp.DataType) -> None:
    for part in node.find_all(exp.DataType):
        if part.this not in vocabulary.TYPES:
            shown = part.sql("postgres").lower()
            raise NotPermitted(
                f"Type `{shown}` is not permitted.",
                rule="type",
                name=shown,
                hint="Permitted are numbers, text, dates and times, boolean, json, uuid and arrays of them.",
            )
    for part in nodes.descendants(node):
        if not isinstance(part, exp.DataType | exp.DataTypeParam | exp.Literal | exp.IntervalSpan | exp.Var):
            raise unknown(part)


def check_var(node: exp.Var) -> None:
    if isinstance(node.parent, exp.Limit) and node.name.upper() == "ALL":
        return
    if isinstance(node.parent, exp.WindowSpec) and node.name.upper() in ("TIES", "GROUP", "CURRENT ROW", "NO OTHERS"):
        return
    if node.name.lower() not in vocabulary.TIME_FIELDS:
        raise NotPermitted(
            f"`{node.name}` is not understood here.", rule="syntax", hint="Write fields of dates as quoted text."
        )


def check_placeholder(node: Node) -> None:
    if not (isinstance(node, exp.Parameter) and isinstance(node.this, exp.Literal) and node.this.name.isdecimal()):
        raise wrong_placeholder()


def wrong_placeholder() -> NotPermitted:
    """What to say of `?`, `%s` and `:name`."""
    return NotPermitted(
        "Placeholders are written $1, $2, and so on.", rule="placeholder", hint="Use $1 for the first parameter."
    )


def unknown_function(name: str) -> NotPermitted:
    """What to say of a function that is not on the list."""
    shown = name.lower()
    return NotPermitted(
        f"Function `{shown}` is not permitted.",
        rule="function",
        name=shown,
        hint=nearest_function(shown)
        or "Use PostgreSQL's aggregates, and its functions on numbers, text, dates and JSON.",
    )


def nearest_function(name: str) -> str:
    """The most similar permitted function, as a hint."""
    close = difflib.get_close_matches(name, sorted(vocabulary.FUNCTIONS), n=1, cutoff=0.7)
    return f"Did you mean `{close[0]}`?" if close else ""


def of_pg_catalog(node: exp.Dot) -> Node:
    left, call = node.this, node.expression
    if isinstance(left, exp.Identifier) and isinstance(call, exp.Func) and nodes.name(left) == "pg_catalog":
        return call
    if isinstance(call, exp.Func):
        raise foreign_function()
    raise NotPermitted(
        "Fields of composite values are not permitted.", rule="column", hint="Write alias.column without brackets."
    )


def foreign_function() -> NotPermitted:
    return NotPermitted(
        "Functions of other schemas are not permitted.", rule="function", hint="Use PostgreSQL's own functions."
    )


def only_known(node: Node) -> None:
    """No part of `node` but those that this module checks."""
    known = next((keys for kind, keys in _KEYS.items() if isinstance(node, kind)), None)
    if known is None:
        raise unknown(node)
    for key, value in node.args.items():
        if not value or key in known:
            continue
        if key == "locks":
            raise NotPermitted("Locking rows is not permitted.", rule="lock", hint="Leave out FOR UPDATE and the like.")
        if key == "into":
            raise NotPermitted("SELECT INTO writes a table.", rule="write", hint="Leave out INTO.")
        raise NotPermitted(
            f"`{key.strip('_').upper()}` is not permitted here.", rule="syntax", hint="Write a simpler SELECT."
        )
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias):
        only_known(alias)


def unknown(node: Node) -> NotPermitted:
    if isinstance(node, _WRITES):
        return NotPermitted("Only reading is permitted.", rule="write", hint="Write one SELECT.")
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return NotPermitted(
            "A placeholder stands for a value, not for a name.", rule="placeholder", hint="Write the name itself."
        )
    return NotPermitted(
        f"The construct {type(node).__name__} is not permitted here.",
        rule="syntax",
        hint="Write one plain SELECT over the permitted tables.",
    )
