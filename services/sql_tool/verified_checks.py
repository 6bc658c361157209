"""Checks a tenant's verified queries against its database, without running them: guard, placeholders, types, cost."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.runtime.errors import DependencyFailed, InvalidField, Overloaded, ServiceError, SqlError
from services.runtime.tenants import SqlSource, VerifiedQuery
from services.sql_tool import guard, verified, verified_types
from services.sql_tool.catalog import Catalog
from services.sql_tool.database import Database, Limits
from services.sql_tool.guard import Approved

log = logging.getLogger(__name__)

# Not the query's fault: it is checked again when it is next asked for.
UNAVAILABLE = (DependencyFailed, Overloaded)
# Types whose values are texts in JSON: a `text` parameter may stand for them, if its examples do.
_TEXT_LIKE = ("uuid", "inet", "interval", "time", "timetz", "timestamptz", "jsonb", "json")


@dataclass(frozen=True)
class Verdict:
    """`statement` is what the guard approved, None when it did not. `defect` says why the query cannot run."""

    statement: Approved | None
    defect: str = ""


async def check(database: Database, source: SqlSource, catalog: Catalog, limits: Limits) -> Mapping[str, Verdict]:
    """A verdict for each verified query of `source`. Raises what UNAVAILABLE names."""
    return {
        name: await _check(database, source, catalog, query, limits) for name, query in source.verified_queries.items()
    }


async def _check(
    database: Database, source: SqlSource, catalog: Catalog, query: VerifiedQuery, limits: Limits
) -> Verdict:
    statement = None
    try:
        statement = await asyncio.to_thread(guard.check, query.sql, catalog.allowed)
        if statement.parameter_count != len(query.parameters):
            counts = (
                f"the statement has {statement.parameter_count} placeholders, and {len(query.parameters)} parameters"
            )
            return Verdict(statement, f"{counts} are declared")
        if defect := verified.definition_defect(query):
            return Verdict(statement, defect)
        if defect := await _types_defect(database, source, catalog, statement, query, limits):
            return Verdict(statement, defect)
        for values in _usual_values(query):
            await database.plan(source, catalog, statement, values, limits)
    except UNAVAILABLE:
        raise
    except ServiceError as error:
        return Verdict(statement, " ".join((error.message, error.metadata.get("hint", ""))).strip())
    return Verdict(statement)


async def _types_defect(
    database: Database, source: SqlSource, catalog: Catalog, statement: Approved, query: VerifiedQuery, limits: Limits
) -> str:
    """Tries a typical value of each declared type: the server's types must take what the declared ones let through."""
    names = list(query.parameters)
    values = [_typical(query, name) for name in names]
    unbounded = replace(limits, max_cost=float("inf"))
    for _ in range(len(names) + 1):
        try:
            await database.plan(source, catalog, statement, values, unbounded)
        except InvalidField as error:
            at = _index(error.metadata.get("field", ""))
            if at is None or at >= len(names):
                return error.message
            expected, declared = error.metadata.get("expected", ""), query.parameters[names[at]].type
            texts = declared.startswith("text") and expected.removesuffix("[]") in _TEXT_LIKE
            if values[at] is None or not texts:
                needed = expected or "another type"
                return f"parameter `{names[at]}` is declared {declared}, but the statement needs {needed}"
            values[at] = None
        except SqlError as error:
            # The planner computes constants: a typical value may be one that the statement cannot compute with.
            return "" if error.metadata.get("sqlstate", "").startswith("22") else error.message
        else:
            return ""
    return ""


def _typical(query: VerifiedQuery, name: str) -> object:
    parameter = query.parameters[name]
    kind, array = verified_types.scalar(parameter)
    low, high = verified_types.bounds(parameter)
    values = verified_types.enumeration(parameter)
    if values:
        value = values[0]
    elif kind.order is not None and parameter.type.startswith("numeric"):
        value = kind.probe  # with a fraction, whatever the bounds: the type must take one
    else:
        value = low if low is not None else high if high is not None else kind.probe
    return [value] if array else value


def _index(field: str) -> int | None:
    number = field.removeprefix("params[").split("]")[0]
    return int(number) if field.startswith("params[") and number.isdecimal() else None


def _usual_values(query: VerifiedQuery) -> Sequence[Sequence[object]]:
    """The values of the examples, or the defaults where there are no examples; none when arguments must be given."""
    if query.examples:
        return [verified.resolve(query, verified.arguments_of(example.arguments)) for example in query.examples]
    if all(parameter.default is not None for parameter in query.parameters.values()):
        return [verified.resolve(query, "")]
    return []
