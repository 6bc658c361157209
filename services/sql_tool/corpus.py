"""Anybody's corpus of statements: its cases, and the verdict of the guard on each.

A case is a line of JSON: `{"id", "sql", "params"?, "allow": {"tables": [...], "columns"?: {table: [...]}}, "expect"?,
"stage"?}`. A table without `columns` shows all of them. Without a database the guard alone judges (parse, policy); see
`trial` for the stages after it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from services.runtime.errors import DeadlineExceeded, InvalidField, NotPermitted, ServiceError, SqlError
from services.sql_tool import codes, guard, parameters
from services.sql_tool.allowlist import AllowedTable, AllowList
from services.sql_tool.ddl import Ddl
from services.sql_tool.guard import Approved
from services.sql_tool.nodes import Anything

STAGES = ("parse", "policy", "bind", "database", "cost", "runtime")
# What the server says of the types of placeholders, and of what outgrows its limits.
_SQL_STAGES = {"42P08": "bind", "42P18": "bind", "53400": "runtime", "54000": "runtime"}
_LAST_WITHOUT_DATABASE = "policy"
_PARSE_RULES = ("statement", "characters", "nesting")


@dataclass(frozen=True)
class Case:
    """One line. `columns` are the only ones of a table that show; `expect` is allow, reject or empty."""

    id: str
    sql: str
    params_json: str
    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    expect: str = ""
    stage: str = ""


@dataclass(frozen=True)
class Verdict:
    """What became of a case. The rest is empty when it is allowed."""

    id: str
    verdict: str
    stage: str = ""
    code: str = ""
    reason: str = ""


def read_cases(lines: Iterable[str]) -> list[Case]:
    """The cases, empty lines left out. Raises InvalidField that names the line which is wrong."""
    return [_case(line, number) for number, line in enumerate(lines, 1) if line.strip()]


def _case(line: str, number: int) -> Case:
    try:
        read: object = json.loads(line)
    except (ValueError, RecursionError):
        raise _wrong(number, "is not JSON") from None
    if not isinstance(read, dict):
        raise _wrong(number, "is not a JSON object")
    one = cast(dict[str, Any], read)
    allow: Any = one.get("allow")
    if not isinstance(one.get("sql"), str) or not isinstance(allow, dict):
        raise _wrong(number, "needs `sql`, a text, and `allow`, an object")
    allowed = cast(dict[str, Any], allow)
    tables = _names(allowed.get("tables"), number, "allow.tables")
    columns: Any = allowed.get("columns") or {}
    if not isinstance(columns, dict):
        raise _wrong(number, "has `allow.columns` that is not an object")
    shown = {
        table: _names(names, number, f"allow.columns.{table}") for table, names in cast(dict[str, Any], columns).items()
    }
    if unknown := sorted(set(shown) - set(tables)):
        raise _wrong(number, f"has columns of tables that are not in `allow.tables`: {', '.join(unknown)}")
    params: Any = one.get("params") or []
    identity = str(one.get("id", f"line {number}"))
    expect, stage = str(one.get("expect") or ""), str(one.get("stage") or "")
    return Case(identity, one["sql"], json.dumps(params), tables, shown, expect, stage)


def _names(given: Any, number: int, what: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in cast(list[Any], given)):
        raise _wrong(number, f"has `{what}` that is not a list of names")
    return tuple(cast(list[str], given))


def _wrong(number: int, what: str) -> InvalidField:
    return InvalidField(f"Line {number} {what}.", field=f"line {number}")


def without_database(cases: Iterable[Case], schema: Ddl | None = None) -> Iterator[Verdict]:
    """The guard's verdict on each case, and the number of its parameters.

    What `schema` does not tell is open: any column of such a table passes, but neither system columns nor functions of
    its rows.
    """
    schema = schema or Ddl()
    for case in cases:
        try:
            approved = approve(case, allow_list(case, schema))
            parameters.check_count(parameters.parse(case.params_json), approved.parameter_count)
        except ServiceError as error:
            yield rejected(case, error)
        else:
            yield Verdict(case.id, "allow")


def approve(case: Case, allowed: AllowList) -> Approved:
    """The guard's approval. Raises as it does; text that is no SQL is told from what the server says of it."""
    try:
        return guard.check(case.sql, allowed)
    except SqlError as error:
        raise codes.changed(error, stage="parse") from None


def allow_list(case: Case, schema: Ddl) -> AllowList:
    """What the case may read."""
    tables: list[AllowedTable] = []
    for name in case.tables:
        namespace, _, table = name.rpartition(".")
        namespace = namespace or "public"
        every = schema.columns.get(f"{namespace}.{table}")
        listed = case.columns.get(name)
        if every is not None:
            shown = tuple(column for column in every if listed is None or column in listed)
            tables.append(AllowedTable(namespace, table, shown, frozenset(every) - set(shown)))
        elif listed is not None:
            tables.append(AllowedTable(namespace, table, listed, frozenset({"…"})))  # there may be more
        else:
            tables.append(AllowedTable(namespace, table, (Anything(),)))
    by_name = {(table.schema, table.name): table for table in tables}
    return AllowList("public", by_name, schema.functions, schema.operators)


def rejected(case: Case, error: ServiceError) -> Verdict:
    """The verdict that an error stands for."""
    return Verdict(case.id, "reject", stage_of(error), codes.code_of(error), error.message)


def stage_of(error: ServiceError) -> str:
    """The first layer that refused: one of STAGES."""
    rule, given = error.metadata.get("rule", ""), error.metadata.get("field", "")
    match error:
        case InvalidField():
            return {"sql": "parse", "params": "policy"}.get(given, "bind")  # `params`: their number
        case NotPermitted():
            return "parse" if rule in _PARSE_RULES else "cost" if rule == "cost" else "policy"
        case SqlError():
            return error.metadata.get("stage") or _SQL_STAGES.get(error.metadata.get("sqlstate", ""), "database")
        case DeadlineExceeded():
            return "runtime"
        case _:
            return "database"


def disagreements(cases: Sequence[Case], verdicts: Sequence[Verdict], *, with_database: bool) -> list[str]:
    """Where the verdicts differ from what the cases expect, or come later than their stage. One line each."""
    found: list[str] = []
    for case, verdict in zip(cases, verdicts, strict=True):
        if not case.expect:
            continue
        late = case.stage in STAGES and STAGES.index(case.stage) > STAGES.index(_LAST_WITHOUT_DATABASE)
        if case.expect == "reject" and verdict.verdict == "allow" and late and not with_database:
            continue  # nobody could tell without a database
        if case.expect != verdict.verdict:
            found.append(f"{case.id}: expected {case.expect}, not {verdict.verdict}. {verdict.reason}".rstrip())
        elif case.stage in STAGES and verdict.stage and STAGES.index(verdict.stage) > STAGES.index(case.stage):
            found.append(f"{case.id}: refused at the stage {verdict.stage}, expected {case.stage} or before.")
    return found
