"""Reads statements that models and golden sets write."""

import sqlglot
from sqlglot import exp


def parsed(statement: str) -> exp.Expr | None:
    """The tree of a PostgreSQL statement; None where it cannot be read."""
    try:
        return sqlglot.parse_one(statement, read="postgres")
    except Exception:
        # Besides its own errors sqlglot has those of Python for some malformed text, such as `0?`.
        return None
