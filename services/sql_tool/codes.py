"""The closed list of codes that tell a model which kind of mistake to repair, and which code an error has."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from services.runtime.errors import (
    DeadlineExceeded,
    DependencyFailed,
    InvalidField,
    NotFound,
    NotPermitted,
    Overloaded,
    ServiceError,
    SqlError,
)

# What the model can do about each is in the hint of the error.
CODES: Mapping[str, str] = {
    "syntax": "the text is not SQL",
    "unknown_table": "no such table or alias may be read here",
    "unknown_column": "no such column may be read here",
    "unknown_function": "no such function or operator is permitted",
    "unknown_type": "no such type is permitted",
    "ambiguous_name": "a name stands for several things",
    "duplicate_name": "two things have one name",
    "invalid_reference": "ORDER BY, GROUP BY or DISTINCT refer to what the SELECT list does not have",
    "not_grouped": "a column is neither grouped nor aggregated",
    "misplaced_call": "an aggregate, a window or a set of rows stands where it may not",
    "type_mismatch": "types do not fit together",
    "invalid_value": "a text is no value of the type that it should become",
    "out_of_range": "a value is too large or too small for its type",
    "division_by_zero": "a divisor is zero",
    "several_rows": "a subquery gives several rows where one value is needed",
    "wrong_parameters": "values do not fit their placeholders, or arguments their parameters",
    "invalid_request": "a field of the request is malformed",
    "unsupported": "the construct is not offered",
    "failed": "the database refused for a reason of its own",
    "too_nested": "the statement is nested too deeply",
    "too_dear": "the planner expects too much work",
    "too_long": "the statement ran out of time",
    "too_large": "the statement needs too much memory, disk or space",
    "not_permitted": "only reading what is listed is permitted",
    "not_found": "there is no such source or query",
    "unavailable": "the database does not answer, or is busy; the same call may succeed later",
}
BY_RULE: Mapping[str, str] = {
    "characters": "syntax",
    "column": "unknown_column",
    "cost": "too_dear",
    "function": "unknown_function",
    "lock": "not_permitted",
    "nesting": "too_nested",
    "operator": "unknown_function",
    "placeholder": "wrong_parameters",
    "size": "too_large",
    "statement": "not_permitted",
    "syntax": "unsupported",
    "table": "unknown_table",
    "type": "unknown_type",
    "verified_query": "not_found",
    "write": "not_permitted",
}


def code_of(error: ServiceError) -> str:
    """One of CODES for every error."""
    given = error.metadata.get("code", "")
    if given in CODES:
        return given
    match error:
        case NotPermitted():
            return BY_RULE.get(error.metadata.get("rule", ""), "not_permitted")
        case SqlError():
            return "syntax" if error.metadata.get("sqlstate") == "42601" else "failed"
        case InvalidField():
            field = error.metadata.get("field", "")
            return "wrong_parameters" if field.startswith(("params", "arguments")) else "invalid_request"
        case DeadlineExceeded():
            return "too_long"
        case NotFound():
            return "not_found"
        case DependencyFailed() | Overloaded():
            return "unavailable"
        case _:
            return "failed"


def changed(error: ServiceError, **metadata: str) -> ServiceError:
    """The same error with more metadata."""
    return type(error)(error.message, retry_after=error.retry_after, **(dict(error.metadata) | metadata))


@contextmanager
def coded() -> Generator[None]:
    """Gives every ServiceError its `code`."""
    try:
        yield
    except ServiceError as error:
        raise changed(error, code=code_of(error)) from None
