"""Which constructs a statement may hold, and what to say of the others."""

import re
from collections.abc import Mapping

from sqlglot import exp

from services.runtime.errors import NotPermitted
from services.sql_tool import hints, nodes, vocabulary
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
    exp.With: {"expressions", "recursive"},
    exp.JSONTable: {"this", "path", "schema"},
    exp.JSONColumnDef: {"this", "kind", "path", "nested_schema", "ordinality"},
}
_COLLATION = re.compile(
    r"C|POSIX|default|ucs_basic|unicode|C[._]utf8|[a-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}(\.utf-?8)?", re.I
)
_PARTS_OF_TYPES = (
    exp.DataType, exp.DataTypeParam, exp.Literal, exp.Interval, exp.IntervalSpan, exp.Var, exp.Identifier, exp.Second
)  # fmt: skip
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Into)


def check_kind(node: Node) -> None:
    kind = type(node)
    if isinstance(node, _WRITES):
        raise NotPermitted("Only reading is permitted.", rule="write", hint="Write one SELECT.")
    if isinstance(node, exp.Ordered) and is_placeholder(node.this):
        raise constant_key()
    if isinstance(node, exp.Anonymous) and fold(node.name, False) not in vocabulary.FUNCTIONS:
        raise unknown_function(node.name)
    if kind not in vocabulary.PLAIN_NODES and kind not in vocabulary.FUNCTION_NODES:
        raise unknown_function(node.sql_name()) if isinstance(node, exp.Func) else unknown(node)


def is_leaf(node: Node) -> bool:
    """Whether this is a construct without names inside, which is checked here. Raises NotPermitted."""
    if isinstance(node, exp.Star):
        if not isinstance(node.parent, exp.Count):
            raise unknown(node)
    elif isinstance(node, exp.Var):
        check_var(node)
    elif isinstance(node, exp.DataType):
        check_type(node)
    elif isinstance(node, exp.Parameter | exp.Placeholder):
        check_placeholder(node)
    else:
        return False
    return True


def check_type(node: exp.DataType) -> None:
    """Raises NotPermitted (type) unless the type, and what it is made of, is one of the permitted."""
    for part in node.find_all(exp.DataType):
        if not _is_known_type(part):
            shown = part.sql("postgres").lower()
            raise NotPermitted(
                f"Type `{shown}` is not permitted.",
                rule="type",
                name=shown,
                hint="Permitted are numbers, text, dates and times, boolean, json, uuid and arrays of them.",
            )
    for part in nodes.descendants(node):
        if not isinstance(part, _PARTS_OF_TYPES):
            raise unknown(part)


def _is_known_type(part: exp.DataType) -> bool:
    if part.this is exp.DataType.Type.USERDEFINED:
        kind = part.args.get("kind")
        return isinstance(kind, exp.Identifier) and nodes.name(kind) in vocabulary.USER_TYPES
    of_interval = isinstance(part, exp.IntervalSpan) or isinstance(part.this, exp.Interval)
    return of_interval or part.this in vocabulary.TYPES


def collation(node: exp.Collate) -> Node:
    """The name of a collation. Raises NotPermitted (type) unless it is one of PostgreSQL's own."""
    name = node.expression
    if not (isinstance(name, exp.Identifier) and _COLLATION.fullmatch(name.name)):
        raise NotPermitted(
            "The collation is not permitted.", rule="type", hint='Use COLLATE "C" or one such as "es-x-icu".'
        )
    return name


def check_var(node: exp.Var) -> None:
    if isinstance(node.parent, exp.Limit) and node.name.upper() == "ALL":
        return
    if isinstance(node.parent, exp.WindowSpec) and node.name.upper() in ("TIES", "GROUP", "CURRENT ROW", "NO OTHERS"):
        return
    # `words` lets only quoted text stand there.
    if isinstance(node.parent, exp.DateBin | exp.TimestampTrunc):
        return
    if node.name.lower() not in vocabulary.TIME_FIELDS:
        raise NotPermitted(
            f"`{node.name}` is not understood here.", rule="syntax", hint="Write fields of dates as quoted text."
        )


def is_placeholder(node: Node) -> bool:
    """Whether this is a placeholder, in brackets or cast or not: as a sort key it is a constant."""
    while isinstance(node, exp.Paren | exp.Cast | exp.Collate):
        node = node.this
    return isinstance(node, exp.Parameter)


def too_wide() -> NotPermitted:
    """What to say of more columns than a query can have."""
    return NotPermitted("The query has too many columns.", rule="size", hint="Name the columns in place of `*`.")


def constant_key() -> NotPermitted:
    """What to say of ORDER BY $1."""
    return NotPermitted(
        "A placeholder cannot be a sort key: it would sort by a constant.",
        rule="placeholder",
        hint="Write the column's name into the statement.",
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
    close = hints.nearest(name, sorted(vocabulary.FUNCTIONS))
    return f"Did you mean `{close}`?" if close else ""


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
