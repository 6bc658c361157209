"""What PromQL expressions ask for."""

from typing import Any

import promql_parser


def selectors(expression: str) -> list[Any]:
    """All vector selectors of a PromQL expression. Raises ValueError where it is none."""
    found: list[Any] = []
    waiting = [promql_parser.parse(expression)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        for name in ("expr", "lhs", "rhs", "param", "vector_selector", "vs"):
            child = getattr(node, name, None)
            if isinstance(child, promql_parser.Expr):
                waiting.append(child)
        waiting.extend(getattr(node, "args", ()) or ())
    return found


def names_in(expression: str) -> set[str]:
    """Names of all series that an expression asks for."""
    return {one.name for one in selectors(expression)}


def labels_in(selector: Any) -> dict[str, str]:
    """Label → text that it is compared with."""
    return {one.name: one.value for one in selector.matchers.matchers}
