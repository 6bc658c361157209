"""What a reader role may do, compared with what its tenant's file allows: the audit at start, and of the command.

Asked as the role itself, so that PUBLIC's rights and inherited ones count. Anything beyond SELECT on the listed columns
is an excess. What PostgreSQL's own initdb gives to everybody in pg_catalog is not: the guard keeps statements from it.
Nor are untrusted languages, which PostgreSQL lets nobody but superusers use, and collations, which compute nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from services.runtime.tenants import SqlSource
from services.sql_tool import questions

_ATTRIBUTES = {
    "createrole": ("may create roles", "NOCREATEROLE"),
    "createdb": ("may create databases", "NOCREATEDB"),
    "replication": ("may replicate", "NOREPLICATION"),
    "bypassrls": ("bypasses row-level security", "NOBYPASSRLS"),
}


class Asking(Protocol):
    """What runs the questions: the driver's connection."""

    async def fetch(self, query: str, *args: object) -> Any:
        """The rows of a query."""
        ...


@dataclass(frozen=True)
class Finding:
    """One line for people, and the statement that mends it; empty where there is none that is surely right."""

    what: str
    mend: str = ""


@dataclass(frozen=True)
class Findings:
    """`excess`: what the role may do besides; `missing`: what the file allows and the role may not; `warnings`."""

    role: str
    excess: Sequence[Finding] = field(default=())
    missing: Sequence[Finding] = field(default=())
    warnings: Sequence[Finding] = field(default=())


def split(name: str, schema: str) -> tuple[str, str]:
    """Schema and table of a name in a tenant's file; a bare name is in `schema`."""
    first, dot, rest = name.partition(".")
    return (first, rest) if dot else (schema, name)


async def audit(connection: Asking, source: SqlSource) -> Findings:
    """Compares the role that `connection` logged in as with the source of a tenant's file."""
    (role,) = await connection.fetch(questions.ROLE)
    if role["super"]:
        return Findings(role["name"], [Finding("is a superuser", f"ALTER ROLE {quoted(role['name'])} NOSUPERUSER")])
    schema = source.database_schema
    wanted = [(*split(name, schema), column) for name, table in source.tables.items() for column in table.columns]
    columns = [[part[at] for part in wanted] for at in range(3)]
    excess = _of_role(role)
    parameters = [questions.PARAMETERS] if role["version"] >= 150000 else []
    for question in [*questions.EXCESSES.values(), *parameters]:
        harmless = [list(questions.HARMLESS_EXTENSIONS)] if "$1" in question else []
        rows = await connection.fetch(question, *harmless, *(columns if "$4" in question else ()))
        excess += [Finding(row[0], row[1]) for row in rows]
    missing = _missing(await connection.fetch(questions.MISSING, *columns))
    return Findings(role["name"], excess, missing, await _warnings(connection, role, columns[:2]))


def _of_role(role: Mapping[str, Any]) -> list[Finding]:
    name = quoted(role["name"])
    found = [Finding(what, f"ALTER ROLE {name} {word}") for key, (what, word) in _ATTRIBUTES.items() if role[key]]
    if role["login"] != role["name"]:
        found.append(Finding(f"logs in as {role['login']} and can go back to it; log in as the reader"))
    if role["open_large_objects"]:
        found.append(Finding("may use every large object", "ALTER SYSTEM SET lo_compat_privileges = off"))
    return found


def _missing(rows: Sequence[Any]) -> list[Finding]:
    found: dict[str, Finding] = {}
    for row in rows:
        if not row["exists"]:
            what = f"{row['table']} has no column {row['column']}, or does not exist"
            found[what] = Finding(what)
        elif not row["usable"]:
            found[row["mend_schema"]] = Finding(f"may not use the schema of {row['table']}", row["mend_schema"])
        elif not row["granted"]:
            found[row["mend"]] = Finding(f"may not read {row['column']} of {row['table']}", row["mend"])
    return list(found.values())


async def _warnings(connection: Asking, role: Mapping[str, Any], tables: Sequence[list[str]]) -> list[Finding]:
    found: list[Finding] = []
    if role["unlimited_files"]:
        mend = f"ALTER ROLE {quoted(role['name'])} SET temp_file_limit = '200MB'"
        found.append(Finding("may fill the disk: temp_file_limit is not set", mend))
    for query in (questions.SETTABLE, questions.WHOLE_TABLES, questions.FUTURE):
        rows = await connection.fetch(query, *(tables if "$1" in query else ()))
        found += [Finding(row[0]) for row in rows]
    return list(dict.fromkeys(found))


def quoted(name: str) -> str:
    """A name as SQL text, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
