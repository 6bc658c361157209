"""Whether the same statement may give other rows although no table changed: it reads the clock, chance or a sample."""

import re
from collections.abc import Sequence

from sqlglot import exp

from services.sql_tool import nodes
from services.sql_tool.lexer import Kind, Token
from services.sql_tool.nodes import Node
from services.sql_tool.words import is_call

_CALLS = frozenset(
    """
    array_sample array_shuffle clock_timestamp gen_random_uuid now random random_normal statement_timestamp
    transaction_timestamp uuidv4 uuidv7
    """.split()
)
_WORDS = frozenset("current_date current_time current_timestamp localtime localtimestamp".split())
# As a date these are read from the clock: 'today', 'Now', '[yesterday,tomorrow)'.
_CLOCK = re.compile(r"(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
_T = exp.DataType.Type
_DATES = frozenset({_T.DATE, _T.TIME, _T.TIMETZ, _T.TIMESTAMP, _T.TIMESTAMPTZ, _T.DATERANGE, _T.TSRANGE, _T.TSTZRANGE})
_TEXTS = frozenset({_T.TEXT, _T.VARCHAR, _T.CHAR, _T.BPCHAR})
# Text that a statement puts together could become 'today' too.
_BUILDERS = (
    exp.DPipe, exp.Concat, exp.ConcatWs, exp.Replace, exp.Reverse, exp.Translate, exp.Overlay, exp.Format, exp.Chr,
    exp.Substring, exp.Left, exp.Right, exp.Trim, exp.Decode, exp.GroupConcat, exp.RegexpReplace, exp.SplitPart,
)  # fmt: skip


def is_volatile(found: Sequence[Token], root: Node) -> bool:
    """True where we cannot be sure of the contrary; it costs a place in the cache, no more."""
    return any(_reads_the_clock(found, at, token) for at, token in enumerate(found)) or _of_the_tree(root)


def _reads_the_clock(found: Sequence[Token], at: int, token: Token) -> bool:
    if token.kind is Kind.STRING:
        escaped = token.text[0] in "eE" and "\\" in token.text
        return escaped or _CLOCK.search(token.text) is not None
    if token.kind is Kind.QUOTED:
        return token.text in _CALLS and is_call(found, at)
    if token.kind is not Kind.WORD:
        return False
    if token.text in _WORDS:
        return True
    # A time of day with a zone takes the zone's offset of today.
    if token.text == "timetz" or (token.text == "time" and at + 1 < len(found) and found[at + 1].text == "with"):
        return True
    return token.text in _CALLS and is_call(found, at)


def _of_the_tree(root: Node) -> bool:
    builds: bool | None = None
    for node in root.find_all(exp.TableSample, exp.Anonymous, exp.Cast):
        if isinstance(node, exp.TableSample):
            if not node.args.get("seed"):
                return True
        elif isinstance(node, exp.Anonymous):
            if node.name.lower() == "age" and len(node.expressions) == 1:
                return True
        elif node.to.this in _DATES and not isinstance(operand := nodes.bare(node.this), exp.Literal):
            if any(_makes_text(part) for part in operand.walk()):
                return True
            if isinstance(operand, exp.Column):
                builds = _inner_queries_build_text(root) if builds is None else builds
                if builds:
                    return True
    return False


def _inner_queries_build_text(root: Node) -> bool:
    """Whether a column may be such a text: one of a subquery, not of a table."""
    inner = (exp.Subquery, exp.CTE, exp.Lateral)
    return any(builder.find_ancestor(*inner) is not None for builder in root.find_all(*_BUILDERS))


def _makes_text(node: Node) -> bool:
    return isinstance(node, _BUILDERS) or (isinstance(node, exp.Cast) and node.to.this in _TEXTS)
