"""Loads a demo tenant's tables into PostgreSQL, owned by one role and readable, column by column, by another."""

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from demo import shop, world
from services.runtime.tenants import SqlSource, Tenant
from services.sql_tool import grants

_MARK = "sabueso demo data "
_TIMEOUT_SECONDS = 60.0
# One load at a time on a server, whoever starts it; the number is arbitrary.
_LOAD_LOCK = 7_302_611

Rows = Sequence[tuple[Any, ...]]


class DatabaseTaken(RuntimeError):
    """A database of the wanted name exists and was not made by this loader; it is left alone."""


@dataclass(frozen=True)
class Tables:
    """A tenant's tables: how to create them, and their rows in an order that respects references."""

    schema_sql: str
    rows: Mapping[str, Rows]

    def version(self) -> str:
        """Changes with any table or row."""
        return hashlib.sha256(repr((self.schema_sql, list(self.rows.items()))).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Loaded:
    """`dsn` is the reader's and holds its password. `fresh` is False when the same data were there already."""

    dsn: str
    reader: str
    fresh: bool


def tables_of(tenant_id: str) -> Tables:
    """The tables of `demo`, `other` or `tiny`. Raises KeyError for another tenant."""
    match tenant_id:
        case "demo":
            return Tables(_schema("demo"), _demo_rows(world.generate()))
        case "other":
            books = (("novela", 18_90), ("atlas", 34_50), ("cuaderno", 4_25), ("poesía", 12_00))
            return _shop_tables(shop.generate(11, 24, 120, books))
        case "tiny":
            pieces = (("stool", 85_00), ("table", 640_00), ("repair", 45_00))
            return _shop_tables(shop.generate(12, 8, 20, pieces))
        case _:
            raise KeyError(f"no demo tables for tenant `{tenant_id}`; known are demo, other, tiny")


async def load_database(admin_dsn: str, tenant: Tenant, reader_password: str, tables: Tables | None = None) -> Loaded:
    """Makes the database `<tenant>` with its tables, owner and reader, or brings it up to date. Safe to repeat.

    `admin_dsn` is a superuser's. `reader_password` is set on the role `<tenant>_reader` each time; the reader gets the
    columns of its source and nothing else. `tables` defaults to the tenant's own.
    Raises DatabaseTaken, ValueError when the tenant has no `sql`, TimeoutError after 60 s, and asyncpg's errors.
    """
    source = tenant.source()
    if source is None:
        raise ValueError(f"tenant `{tenant.id}` has no `sql`; there is nothing to load")
    tables = tables or tables_of(tenant.id)
    database, owner, reader = tenant.id, f"{tenant.id}_owner", f"{tenant.id}_reader"
    async with _connected(admin_dsn) as admin:
        # Taken on the connection: it is freed when the connection ends, however that happens.
        await admin.execute("SELECT pg_advisory_lock($1)", _LOAD_LOCK)
        await _ensure_owner(admin, owner)
        await _ensure_database(admin, database, owner)
        async with _connected(_with(admin_dsn, database=database)) as connection, connection.transaction():
            fresh = await _loaded_version(connection) != tables.version()
            if fresh:
                await _fill(connection, tables, owner, source.database_schema)
                await connection.execute(f"COMMENT ON DATABASE {_id(database)} IS '{_MARK}{tables.version()}'")
            for statement in _statements(source, database, reader, reader_password):
                await connection.execute(statement)
    return Loaded(_with(admin_dsn, database, reader, reader_password), reader, fresh)


def _statements(sql: SqlSource, database: str, reader: str, password: str) -> list[str]:
    """The service's own grants, which take away first what the reader had, and what they leave to the installation."""
    role = _id(reader)
    limits = {"lock_timeout": "2s", "idle_in_transaction_session_timeout": "30s", "search_path": sql.database_schema}
    return [
        *grants.statements(sql, reader),
        f"REVOKE ALL ON DATABASE {_id(database)} FROM PUBLIC, {role}",
        f"GRANT CONNECT ON DATABASE {_id(database)} TO {role}",
        f"ALTER ROLE {role} LOGIN CONNECTION LIMIT 20 PASSWORD {_literal(password)}",
        *(f"ALTER ROLE {role} SET {name} = {_literal(value)}" for name, value in limits.items()),
    ]


async def _ensure_owner(admin: asyncpg.Connection, owner: str) -> None:
    if not await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", owner):
        await admin.execute(f"CREATE ROLE {_id(owner)} NOLOGIN")


async def _ensure_database(admin: asyncpg.Connection, database: str, owner: str) -> None:
    comment = await admin.fetchrow(
        "SELECT shobj_description(oid, 'pg_database') AS text FROM pg_database WHERE datname = $1", database
    )
    if comment is None:
        await admin.execute(f"CREATE DATABASE {_id(database)} OWNER {_id(owner)} TEMPLATE template0 ENCODING 'UTF8'")
        await admin.execute(f"COMMENT ON DATABASE {_id(database)} IS '{_MARK}loading'")
    elif not str(comment["text"] or "").startswith(_MARK):
        raise DatabaseTaken(f"a database `{database}` exists that this loader did not make; rename or drop it")


async def _loaded_version(connection: asyncpg.Connection) -> str:
    text = await connection.fetchval(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"
    )
    return str(text).removeprefix(_MARK)


async def _fill(connection: asyncpg.Connection, tables: Tables, owner: str, schema: str) -> None:
    """Replaces the schema and its rows; readers see the old ones until the transaction ends."""
    await connection.execute("SET LOCAL lock_timeout = '30s'")
    await connection.execute(f"DROP SCHEMA IF EXISTS {_id(schema)} CASCADE")
    await connection.execute(f"CREATE SCHEMA {_id(schema)} AUTHORIZATION {_id(owner)}")
    await connection.execute(f"SET LOCAL ROLE {_id(owner)}")
    await connection.execute(f"SET LOCAL search_path = {_id(schema)}")
    await connection.execute(tables.schema_sql)
    for table, rows in tables.rows.items():
        await connection.copy_records_to_table(table, records=rows, schema_name=schema)
    for table in tables.rows:
        await connection.execute(f"ANALYZE {_id(schema)}.{_id(table)}")
    await connection.execute("RESET ROLE")


@asynccontextmanager
async def _connected(dsn: str) -> AsyncGenerator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=_TIMEOUT_SECONDS)
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


def _with(dsn: str, database: str, user: str = "", password: str = "") -> str:
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{host}" if user else parts.netloc
    return urlunsplit((parts.scheme, netloc, f"/{database}", parts.query, ""))


def _id(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    """For statements that take no parameters. The E form means the same whatever the server's settings."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _schema(name: str) -> str:
    return files("demo").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def _demo_rows(data: world.World) -> dict[str, Rows]:
    """The rows by table. Tax numbers and accounts are visibly not real: no country issues any like these."""
    return {
        "regions": [(r.code, r.name, r.name_es) for r in data.regions],
        "providers": [(p.id, p.name, p.country, p.region_code, f"DEMO-{p.id:05d}") for p in data.providers],
        "bank_accounts": [(p.id, f"XX00 DEMO {p.id:04d}") for p in data.providers],
        "contracts": [
            (c.id, c.title, c.provider_id, c.amount, c.signed_on, c.category, c.status) for c in data.contracts
        ],
        "payments": [(p.id, p.contract_id, p.amount, p.paid_on, p.status) for p in data.payments],
    }


def _shop_tables(data: shop.Shop) -> Tables:
    return Tables(_schema("shop"), {"customers": data.customers, "orders": data.orders})
