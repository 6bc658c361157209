"""The process at its end, and what it holds in memory while it runs."""

import asyncio

import httpx2
import pytest
import pytest_asyncio

from services.understudy.faults import faulty
from tests.integration.gateway_process import gateway_process
from tests.integration.streams_stack import text_of


@pytest_asyncio.fixture
async def mock():
    async with faulty() as mock:
        yield mock


async def read(response):
    return text_of((await response.aread()).decode())


async def until_draining(gateway):
    """Asks on and on, as a client with an open connection does; the last answer says that the connection ends."""
    async with asyncio.timeout(30):
        while True:
            response = await gateway.http.get("/healthz")
            assert response.status_code == 200
            if response.headers.get("connection") == "close":
                return
            await asyncio.sleep(0.02)


async def until_closed(url):
    """New clients are served, each on a connection that ends, until the door is closed."""
    async with asyncio.timeout(30), httpx2.AsyncClient(base_url=url, trust_env=False) as http:
        while True:
            try:
                response = await http.get("/healthz")
            except httpx2.TransportError:
                return
            assert (response.status_code, response.headers["connection"]) == (200, "close")
            await asyncio.sleep(0.01)


async def test_running_streams_finish_while_nothing_new_comes(tmp_path, valkey_url, mock):
    grace = {"SABUESO_SHUTDOWN_GRACE_SECONDS": "60", "SABUESO_SHUTDOWN_NOTICE_SECONDS": "3"}
    async with gateway_process(tmp_path, valkey_url, mock.url, **grace) as gateway:
        async with gateway.asking(fault={"pieces": ["a", "b", "c"], "hold_after": 1}) as running:
            gateway.process.terminate()
            await until_draining(gateway)
            ready = await gateway.http.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (503, "draining")
            async with gateway.asking(fault={"pieces": ["x"]}) as late:
                assert late.headers["connection"] == "close"
                assert await read(late) == ("x", None, True)
            await until_closed(gateway.url)
            mock.go_on.set()
            assert await read(running) == ("abc", None, True)
        assert await asyncio.wait_for(gateway.process.wait(), 30) == 0


@pytest.mark.slow
async def test_what_does_not_finish_within_the_grace_is_told_so(tmp_path, valkey_url, mock):
    grace = {"SABUESO_SHUTDOWN_GRACE_SECONDS": "0.2", "SABUESO_SHUTDOWN_NOTICE_SECONDS": "0"}
    async with gateway_process(tmp_path, valkey_url, mock.url, **grace) as gateway:
        chat, hang = "/v1/chat/completions", {"before": "silence"}
        whole = asyncio.create_task(gateway.http.post(chat, json=gateway.chat(fault=hang)))
        unopened = asyncio.create_task(gateway.http.post(chat, json=gateway.chat(fault=hang, stream=True)))
        async with gateway.asking(fault={"pieces": ["a", "b"], "hold_after": 1}) as running:
            await asyncio.wait_for(mock.arrived(3), 30)
            gateway.process.terminate()
            # Its own error, and HTTP's proper end: no cut.
            assert await read(running) == ("a", "server_shutting_down", False)
        for task in (whole, unopened):
            response = await asyncio.wait_for(task, 30)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "server_shutting_down")
        assert await asyncio.wait_for(gateway.process.wait(), 30) == 0
    for record in mock.requests:
        await asyncio.wait_for(record.closed.wait(), 30)


@pytest.mark.slow
async def test_memory_stays_bounded_by_endless_lines_and_by_readers_who_do_not_read(tmp_path, valkey_url, mock):
    async with gateway_process(tmp_path, valkey_url, mock.url) as gateway:
        async with gateway.asking(fault={}) as response:
            assert (await read(response))[2]
        before = gateway.resident_bytes()
        async with gateway.asking(fault={"pieces": ["a"], "ending": "long_line"}) as response:
            assert await read(response) == ("a", "bad_model_answer", False)
        async with gateway.asking(fault={"pieces": ["x" * 4000], "ending": "endless"}) as response:
            await anext(response.aiter_raw())
            sent = -1
            async with asyncio.timeout(60):
                while sent != mock.requests[-1].sent_bytes:
                    sent = mock.requests[-1].sent_bytes
                    await asyncio.sleep(0.5)
            assert gateway.resident_bytes() - before < 60_000_000
        await asyncio.wait_for(mock.requests[-1].closed.wait(), 30)
