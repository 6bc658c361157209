"""Large values: cut, dropped or refused as they arrive, and the process of the tool stays small."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import aio

from local import ports
from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime import errors
from services.runtime.channels import connect
from services.runtime.testing import SECRET, act_as
from tests.integration.sql_stack import (
    make_database,
    query,
    refused,
    serving,
    source_of,
    values,
    write_tenant,
)

SOURCE = source_of({"texts": ["id", "body", "raw", "doc", "tags", "wide"]})
# `wide` repeats in the row what one column may hold; no literal of a statement says how much it is.
SCHEMA = """
    CREATE TABLE texts (id int, body text, raw bytea, doc jsonb, tags text[], wide text);
    INSERT INTO texts SELECT 1, repeat('€', 50000), decode(repeat('ab', 100000), 'hex'),
        jsonb_build_object('k', repeat('x', 100000)), array_agg('tag ' || g), 'short' FROM generate_series(1, 20000) g;
    INSERT INTO texts SELECT g, repeat('y', 1000000), NULL, NULL, NULL, repeat('z', 1000)
        FROM generate_series(2, 400) g;
    CREATE VIEW huge AS SELECT 1 AS id, repeat(body, 300) AS body FROM texts WHERE id = 2;
    CREATE VIEW many AS SELECT b.id, repeat(a.body, 20) AS body FROM texts a, texts b WHERE a.id = 2;
"""
TABLES = source_of(
    {"texts": ["id", "body", "raw", "doc", "tags", "wide"], "huge": ["id", "body"], "many": ["id", "body"]}
)


@pytest.fixture(scope="module")
def dsn(postgres_server):
    name = make_database(postgres_server, "sql_limits", SCHEMA, ("limits_reader", TABLES))
    return postgres_server.dsn(name, "limits_reader", "pass")


@pytest.fixture
def folder(dsn, tmp_path):
    write_tenant(tmp_path, "acme", TABLES, acme_dsn=dsn)
    return tmp_path


async def test_a_value_above_the_limit_is_cut_and_said(folder):
    async with serving(folder, max_cell_bytes=1000) as stub:
        result = await query(stub, "SELECT id, body, raw, doc, tags, wide FROM texts WHERE id = 1")
        fits = await query(stub, "SELECT id, wide FROM texts WHERE id <= 2 ORDER BY id")
    assert (result.truncated, result.truncated_by) == (True, "cell")
    ((number, body, raw, doc, tags, wide),) = values(result)
    assert (number, wide) == (1, "short")
    assert body == "€" * 333 + "…"
    assert raw == b"\xab" * 499
    assert doc == json.dumps({"k": "x" * 100000})[:1000] + "…"
    assert tags.startswith('{"tag 1","tag 2",')
    assert len(tags) == 1001
    kinds = [cell.WhichOneof("kind") for cell in result.rows[0].cells]
    # Half a document or list is not JSON, and does not say that it is.
    assert kinds == ["integer_value", "text_value", "bytes_value", "text_value", "text_value", "text_value"]
    assert (fits.truncated_by, values(fits)) == ("", [[1, "short"], [2, "z" * 1000]])


async def test_a_cut_in_rows_is_said_before_one_in_values(folder):
    async with serving(folder, max_cell_bytes=1000) as stub:
        result = await query(stub, "SELECT body FROM texts", max_rows=3)
    assert (len(result.rows), result.truncated_by) == (3, "rows")


async def test_rows_above_the_result_are_left_out(folder):
    async with serving(folder, max_cell_bytes=100_000, max_result_bytes=250_000) as stub:
        result = await query(stub, "SELECT body FROM texts WHERE id > 1")
    assert (len(result.rows), result.truncated_by) == (2, "bytes")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT body FROM huge",
        "SELECT body::int FROM huge",
    ],
)
async def test_what_is_far_too_large_is_refused_with_advice(folder, sql):
    async with serving(folder) as stub:
        error = await refused(query(stub, sql), errors.SqlError)
        assert error.metadata["sqlstate"] == "54000"
        assert "left(x, 200)" in error.metadata["hint"]
        assert values(await query(stub, "SELECT 1")) == [[1]]


def resident_bytes(pid, name="VmHWM"):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")


def forget_the_peak(pid):
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@asynccontextmanager
async def process(folder):
    """The service as a process of its own, and a stub to it."""
    (port,) = ports.pick(1, ports.random_start())
    settings = {
        "IDENTITY_SECRET": SECRET, "TENANTS_DIR": folder, "SECRETS_DIR": folder, "HOST": "127.0.0.1", "PORT": port,
        "METRICS_PORT": 0, "STATEMENT_TIMEOUT_SECONDS": 20,
    }  # fmt: skip
    environment = os.environ | {f"SABUESO_{name}": str(value) for name, value in settings.items()}
    running = await asyncio.create_subprocess_exec(sys.executable, "-m", "services.sql_tool.server", env=environment)
    try:
        act_as("acme")
        async with connect(f"127.0.0.1:{port}") as channel:
            stub = rpc.SqlToolServiceStub(channel)
            await stub.Query(pb.QueryRequest(sql="SELECT 1"), wait_for_ready=True, timeout=30)
            yield running.pid, stub
    finally:
        running.terminate()
        await asyncio.wait_for(running.wait(), 20)


@pytest.mark.slow
async def test_the_process_stays_small_whatever_a_statement_makes(folder):
    statements = {
        "SELECT body FROM huge": 54000,  # one value of 300 MB
        "SELECT body FROM many": "bytes",  # 400 rows of 20 MB
        "SELECT body, doc, tags, wide FROM texts": "bytes",  # 400 MB in rows
        "SELECT string_agg(body, '') FROM texts": 54000,  # 400 MB
        "SELECT body::int FROM huge": 54000,  # an error message of 300 MB
        "SELECT array_agg(body) FROM texts": 54000,
        "SELECT wide FROM texts": "rows",
    }
    limit = 1024 * 1024
    async with process(folder) as (pid, stub):
        await query(stub, "SELECT id, body, raw, doc, tags, wide FROM texts WHERE id = 1")
        for sql, expected in statements.items():
            forget_the_peak(pid)
            before = resident_bytes(pid)
            try:
                outcome = (await query(stub, sql)).truncated_by
            except aio.AioRpcError as failed:
                error = errors.from_rpc(failed, "sql_tool")
                outcome = int(error.metadata.get("sqlstate", 0))
            grown = resident_bytes(pid) - before
            print(f"{grown / limit:6.2f} MiB more at the peak: {sql} ({outcome})")
            assert outcome in (expected, 54000), sql
            assert grown < 8 * limit, sql


async def test_many_large_answers_at_once_stay_within_their_limits(folder):
    async with process(folder) as (pid, stub):
        await query(stub, "SELECT wide FROM texts")
        forget_the_peak(pid)
        before = resident_bytes(pid)
        results = await asyncio.gather(*(query(stub, "SELECT body FROM texts") for _ in range(4)))
        grown = resident_bytes(pid) - before
    assert {result.truncated_by for result in results} == {"bytes"}
    print(f"{grown / 2**20:.1f} MiB more for 4 answers at once")
    assert grown < 4 * 8 * 2**20
