"""What the tests of the SQL tool's databases share: a database with a reader role, and the tool over it."""

import asyncio
import json
from contextlib import asynccontextmanager

import asyncpg
import pytest
import yaml
from grpc import aio

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime import errors
from services.runtime.tenants import SqlSource
from services.runtime.testing import SECRET, act_as, running
from services.sql_tool import grants, server
from services.sql_tool.config import Settings


def source_of(tables, secret="acme-dsn", **fields):
    """A source with these tables: column names by table."""
    described = {name: {"columns": {column: {} for column in columns}} for name, columns in tables.items()}
    return SqlSource.model_validate({"dsn_secret": secret, "tables": described, **fields})


@asynccontextmanager
async def connected(dsn):
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


def make_database(postgres_server, name, schema, *readers):
    """A database with `schema`, and a role for each (name, source), with the password `pass`."""

    async def make():
        async with connected(postgres_server.dsn()) as admin:
            await admin.execute(f"DROP DATABASE IF EXISTS {name}")
            await admin.execute(f"CREATE DATABASE {name}")
        async with connected(postgres_server.dsn(name)) as admin:
            await admin.execute(schema)
            for role, source in readers:
                await make_reader(admin, role, source)

    asyncio.run(make())
    return name


async def make_reader(admin, role, source):
    for statement in grants.statements(source, role):
        await admin.execute(statement)
    await admin.execute(f"ALTER ROLE {role} PASSWORD 'pass'")


def write_tenant(folder, tenant, *sources, **dsns):
    """The tenant's file, and the DSNs that its sources name: `acme_dsn="…"` becomes the file `acme-dsn`."""
    sql = [json.loads(source.model_dump_json(by_alias=True, exclude_defaults=True)) for source in sources]
    (folder / f"{tenant}.yaml").write_text(yaml.safe_dump({"id": tenant, "sql": sql}, sort_keys=False))
    for name, dsn in dsns.items():
        (folder / name.replace("_", "-")).write_text(dsn)


def settings_of(folder, **settings):
    return Settings(identity_secret=SECRET, tenants_dir=folder, secrets_dir=folder, **settings)


@asynccontextmanager
async def serving(folder, **settings):
    """A stub of the tool, called by `acme`."""
    act_as("acme")
    (served,) = await server.build(settings_of(folder, **settings))
    async with running(served) as channel:
        yield rpc.SqlToolServiceStub(channel)


async def query(stub, sql, *params, **fields):
    response = await stub.Query(pb.QueryRequest(sql=sql, params_json=json.dumps(params), **fields))
    return response.result


def values(result):
    return [
        [getattr(cell, cell.WhichOneof("kind")) if cell.WhichOneof("kind") else None for cell in row.cells]
        for row in result.rows
    ]


async def refused(call, kind):
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    error = errors.from_rpc(caught.value, "sql_tool")
    assert isinstance(error, kind), f"{type(error).__name__}: {caught.value.details()}"
    return error
