"""What the server's errors mean to the caller: a model that can repair its statement, or someone who waits for us.

The server's own words never go out: they quote names that the tenant's file hides ("Perhaps you meant …"), and values
of rows that a view or a policy hides. A message is made of our words, of what the statement itself says where the error
is, and of names of PostgreSQL's types.
"""

import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import asyncpg

from services.runtime.errors import (
    DeadlineExceeded,
    DependencyFailed,
    InvalidField,
    NotPermitted,
    ServiceError,
    SqlError,
)
from services.sql_tool import hints, meanings
from services.sql_tool.allowlist import AllowList
from services.sql_tool.connections import UNREACHABLE
from services.sql_tool.meanings import Place

log = logging.getLogger(__name__)

# Data exceptions, cardinality, syntax and names, unsupported features, program limits, failed functions of views.
_STATEMENT_CLASSES = ("21", "22", "42", "44", "0A", "2F", "38", "39", "54", "P0")
_SPACE = re.compile(r"\s*")
_SIGN = re.compile(r"[-+*/<>=~!@#%^&|?]+|'[^']{0,40}'?|\S")
_TYPE_NAMES = (
    "bigint|integer|smallint|numeric|real|double precision|text|character varying|character|boolean|date|interval|"
    "timestamp without time zone|timestamp with time zone|time without time zone|time with time zone|timestamp|time|"
    "uuid|jsonb|json|jsonpath|bytea|inet|cidr|tsvector|tsquery|record|unknown|int4range|int8range|numrange|daterange|"
    "tsrange|tstzrange"
)
_TYPE = re.compile(rf"(?<![\w\"])(?:{_TYPE_NAMES})(?:\[\])?(?![\w\"])")


@asynccontextmanager
async def translated(sql: str = "", allowed: AllowList | None = None) -> AsyncGenerator[None]:
    """Turns the driver's exceptions into those of this project.

    `sql` is the statement as the model wrote it; without it the statement is ours, and nobody can repair it.
    """
    try:
        yield
    except asyncpg.PostgresError as error:
        raise meaning(error, sql, allowed) from None
    except asyncpg.UnsupportedClientFeatureError:
        raise SqlError(
            "A column has a value that cannot be sent.",
            sqlstate="0A000",
            code="unsupported",
            hint="Cast it to text, or use to_jsonb(…).",
        ) from None
    except UNREACHABLE as error:
        if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):  # the driver's DataError
            raise InvalidField("A value of `params` does not fit its placeholder.", field="params") from None
        if isinstance(error, TimeoutError):
            raise
        log.warning("a tenant's database was lost", extra={"cause": type(error).__name__})
        raise DependencyFailed("The tenant's database does not answer.", dependency="postgresql") from None


def meaning(error: asyncpg.PostgresError, sql: str = "", allowed: AllowList | None = None) -> ServiceError:
    """The error as the caller may see it."""
    sqlstate = str(error.sqlstate or "")
    if (known := _NOT_REPAIRABLE.get(sqlstate)) is not None:
        return known()
    if sqlstate in ("53400", "53100", "53200"):
        message, hint = "The statement needs too much memory or disk.", "Filter or aggregate more."
        return SqlError(message, sqlstate=sqlstate, code="too_large", hint=hint)
    if not sql or sqlstate[:2] not in _STATEMENT_CLASSES:
        log.warning("a tenant's database refused", extra={"sqlstate": sqlstate})
        return DependencyFailed("The tenant's database does not answer.", dependency="postgresql")
    position = _position(error, sql)
    found = meanings.of(sqlstate, Place(_word(sql, position), _types(error), sql, allowed))
    return SqlError(found.message, sqlstate=sqlstate, code=found.code, position=str(position or ""), hint=found.hint)


def _position(error: asyncpg.PostgresError, sql: str) -> int | None:
    """Where in the model's text, counted from 1; the server counts from the EXPLAIN that may stand before it."""
    position, sent = getattr(error, "position", None), getattr(error, "query", None)
    if not position or getattr(error, "internal_query", None):
        return None
    before = len(sent) - len(sql) if isinstance(sent, str) and sent.endswith(sql) else 0
    at = int(str(position)) - before
    return at if 0 < at <= len(sql) + 1 else None


def _word(sql: str, position: int | None) -> str:
    if position is None:
        return ""
    space = _SPACE.match(sql, position - 1)
    start = space.end() if space else position - 1
    if name := hints.name_at(sql, start + 1):
        return name
    found = _SIGN.match(sql, start)
    return found.group() if found else ""


def _types(error: asyncpg.PostgresError) -> tuple[str, ...]:
    """PostgreSQL's own types in the server's message, before anything that it quotes."""
    text = str(getattr(error, "message", None) or "").split('"')[0][:300]
    return tuple(dict.fromkeys(_TYPE.findall(text)))


_NOT_REPAIRABLE: Mapping[str, Callable[[], ServiceError]] = {
    "25006": lambda: NotPermitted("Only reading is permitted.", rule="write", hint="Write one SELECT."),
    "42501": lambda: NotPermitted(
        "The database's role may not read this.", rule="column", hint="Use the described columns."
    ),
    "55P03": lambda: DependencyFailed("A table is locked by another session.", dependency="postgresql"),
    "57014": lambda: DeadlineExceeded("The statement took too long.", stage="sql"),
}
