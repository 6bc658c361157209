"""What the server's errors mean to the caller: a model that can repair its statement, or someone who waits for us."""

import logging
from collections.abc import AsyncGenerator
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
from services.sql_tool.connections import UNREACHABLE

log = logging.getLogger(__name__)

# Data exceptions, cardinality, syntax and names, unsupported features, limits of the program.
_STATEMENT_CLASSES = ("21", "22", "42", "0A", "54")
# PostgreSQL's hints here explain types; elsewhere they name columns and tables, hidden ones too.
_SAFE_HINTS = ("42883", "42725", "42804", "42P18", "22P02")
_HINTS = {
    "42803": "Put the column into GROUP BY or into an aggregate.",
    "22012": "Divide by nullif(x, 0).",
    "21000": "Add LIMIT 1, an aggregate, or use IN.",
    "42P18": "Cast the placeholder, such as $1::int.",
    "0A000": "Write it in another way.",
}


@asynccontextmanager
async def translated() -> AsyncGenerator[None]:
    """Turns the driver's exceptions into those of this project."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _meaning(error) from None
    except asyncpg.UnsupportedClientFeatureError:
        raise SqlError(
            "A column has a value that cannot be sent.", sqlstate="0A000", hint="Cast it to text, or use to_jsonb(…)."
        ) from None
    except UNREACHABLE as error:
        if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):  # the driver's DataError
            raise InvalidField("A value of `params` does not fit its placeholder.", field="params") from None
        if isinstance(error, TimeoutError):
            raise
        log.warning("a tenant's database was lost", extra={"cause": type(error).__name__})
        raise DependencyFailed("The tenant's database does not answer.", dependency="postgresql") from None


def _meaning(error: asyncpg.PostgresError) -> ServiceError:
    sqlstate = str(error.sqlstate or "")
    if sqlstate == "57014":
        return DeadlineExceeded("The statement took too long.", stage="sql")
    if sqlstate == "42501":
        return NotPermitted("The database's role may not read this.", rule="column", hint="Use the described columns.")
    if sqlstate in ("53400", "53100", "53200"):
        return SqlError(
            "The statement needs too much memory or disk.", sqlstate=sqlstate, hint="Filter or aggregate more."
        )
    if sqlstate == "55P03":
        return DependencyFailed("A table is locked by another session.", dependency="postgresql")
    if sqlstate[:2] not in _STATEMENT_CLASSES:
        log.warning("a tenant's database refused", extra={"sqlstate": sqlstate})
        return DependencyFailed("The tenant's database does not answer.", dependency="postgresql")
    hint = _HINTS.get(sqlstate) or (getattr(error, "hint", None) if sqlstate in _SAFE_HINTS else None)
    position = getattr(error, "position", None)
    return SqlError(_sentence(error), sqlstate=sqlstate, position=str(position or ""), hint=str(hint or ""))


def _sentence(error: asyncpg.PostgresError) -> str:
    text = str(getattr(error, "message", None) or "The statement is wrong")
    return text[:1].upper() + text[1:300].rstrip(".") + "."
