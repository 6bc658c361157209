"""What the database says of a tenant's tables and of the role that reads them."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.runtime.tenants import SqlSource
from services.sql_tool.allowlist import AllowedTable, AllowList
from services.sql_tool.connections import Connection
from services.sql_tool.questions import HARMLESS_EXTENSIONS, REACH
from services.sql_tool.rights import split

log = logging.getLogger(__name__)

_COLUMNS = """
    SELECT n.nspname AS schema, c.relname AS table, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
           t.typcategory = 'S' AS is_text, has_column_privilege(c.oid, a.attnum, 'SELECT') AS granted
    FROM unnest($1::text[], $2::text[]) AS wanted(schema, name)
    JOIN pg_namespace n ON n.nspname = wanted.schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name AND c.relkind IN ('r', 'v', 'm', 'p', 'f')
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    ORDER BY 1, 2, a.attnum
"""
_KEYS = """
    SELECT n.nspname AS schema, c.relname AS table, k.contype::text AS kind,
           fn.nspname AS to_schema, f.relname AS to_table,
           ARRAY(SELECT a.attname FROM unnest(k.conkey) WITH ORDINALITY u(n, o)
                 JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.o)::text[] AS columns,
           ARRAY(SELECT a.attname FROM unnest(k.confkey) WITH ORDINALITY u(n, o)
                 JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.o)::text[] AS to_columns
    FROM unnest($1::text[], $2::text[]) AS wanted(schema, name)
    JOIN pg_namespace n ON n.nspname = wanted.schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name
    JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype IN ('p', 'f')
    LEFT JOIN pg_class f ON f.oid = k.confrelid
    LEFT JOIN pg_namespace fn ON fn.oid = f.relnamespace
    ORDER BY k.conname
"""
# Functions and operators of the tenant's own schema would win over PostgreSQL's for some types. Those of harmless
# extensions may: pgvector has its own sum() and avg().
_SHADOWS = """
    SELECT 'function' AS kind, p.proname::text AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = $1 AND NOT EXISTS (
        SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid WHERE d.classid = 'pg_proc'::regclass
          AND d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
          AND e.extname = ANY($2::text[]))
    UNION
    SELECT 'operator', o.oprname::text FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace
    WHERE n.nspname = $1 AND NOT EXISTS (
        SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid WHERE d.classid = 'pg_operator'::regclass
          AND d.objid = o.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
          AND e.extname = ANY($2::text[]))
"""


@dataclass(frozen=True)
class Described:
    """A column as the database knows it. `references` is schema, table and column."""

    name: str
    type: str
    is_text: bool = False
    primary_key: bool = False
    references: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class Catalog:
    """A tenant's allow-list joined with the database. `readable` holds every relation that a plan may read."""

    allowed: AllowList
    columns: Mapping[str, Sequence[Described]]
    primary_keys: Mapping[str, tuple[str, ...]]
    readable: frozenset[str]
    version: str


async def read(connection: Connection, tenant_id: str, source: SqlSource) -> Catalog:
    """Reads the catalog as the reader role. What the role may not read is left out, and logged."""
    schema = source.database_schema
    wanted = {split(name, schema): table for name, table in source.tables.items()}
    names = [part[0] for part in wanted], [part[1] for part in wanted]
    columns = await connection.fetch(_COLUMNS, *names)
    keys = await connection.fetch(_KEYS, *names)
    readable = frozenset[str](row["relation"] for row in await connection.fetch(REACH, *names))
    shadows = await connection.fetch(_SHADOWS, schema, list(HARMLESS_EXTENSIONS))
    tables: dict[tuple[str, str], AllowedTable] = {}
    described: dict[str, Sequence[Described]] = {}
    for key, table in wanted.items():
        rows = [row for row in columns if (row["schema"], row["table"]) == key]
        permitted = [row for row in rows if row["column"] in table.columns and row["granted"]]
        _report_missing(tenant_id, key, set(table.columns) - {row["column"] for row in permitted})
        if not permitted:
            continue
        visible = tuple(str(row["column"]) for row in permitted)
        hidden = frozenset(str(row["column"]) for row in rows) - set(visible)
        tables[key] = AllowedTable(*key, visible, hidden)
        described[tables[key].qualified] = _described(
            permitted, [row for row in keys if (row["schema"], row["table"]) == key]
        )
    primary = {f"{row['schema']}.{row['table']}": tuple[str, ...](row["columns"]) for row in keys if row["kind"] == "p"}
    by_kind = {
        kind: frozenset(str(row["name"]) for row in shadows if row["kind"] == kind) for kind in ("function", "operator")
    }
    allowed = AllowList(schema, tables, by_kind["function"], by_kind["operator"])
    digest = hashlib.sha256(repr((source.model_dump_json(), described, primary)).encode())
    return Catalog(allowed, described, primary, readable, digest.hexdigest()[:16])


def _described(columns: Sequence[Any], keys: Sequence[Any]) -> list[Described]:
    primary = next((tuple(row["columns"]) for row in keys if row["kind"] == "p"), ())
    references = {
        row["columns"][0]: (row["to_schema"], row["to_table"], row["to_columns"][0])
        for row in keys
        if row["kind"] == "f" and len(row["columns"]) == 1
    }
    return [
        Described(
            row["column"], row["type"], row["is_text"], primary == (row["column"],), references.get(row["column"])
        )
        for row in columns
    ]


def _report_missing(tenant_id: str, key: tuple[str, str], missing: set[str]) -> None:
    if missing:
        log.warning(
            "columns of the tenant's file do not exist or are not granted",
            extra={"tenant": tenant_id, "table": ".".join(key), "columns": sorted(missing)},
        )
