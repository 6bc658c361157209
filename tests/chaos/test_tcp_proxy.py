"""The proxy that faults are made with does to a connection what it says."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from tests.chaos.tcp_proxy import Proxies, TcpProxy


@asynccontextmanager
async def echo(name=b""):
    async def serve(reader, writer):
        try:
            while chunk := await reader.read(1000):
                writer.write(name + chunk)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def before(*ports):
    proxy = TcpProxy(lambda: ports)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()


@asynccontextmanager
async def connection(proxy):
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def said(reader, writer, text):
    writer.write(text)
    return await asyncio.wait_for(reader.read(1000), 10)


async def test_what_is_said_comes_back():
    async with echo() as port, before(port) as proxy, connection(proxy) as (reader, writer):
        assert await said(reader, writer, b"hello") == b"hello"


async def test_the_end_of_a_request_is_passed_on_and_its_answer_comes_back():
    async with echo() as port, before(port) as proxy, connection(proxy) as (reader, writer):
        writer.write(b"hello")
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 10) == b"hello"


async def test_a_delay_comes_on_top_in_each_direction():
    async with echo() as port, before(port) as proxy, connection(proxy) as (reader, writer):
        await proxy.delay(0.1)
        began = time.monotonic()
        assert await said(reader, writer, b"hello") == b"hello"
        assert time.monotonic() - began >= 0.2


async def test_silence_holds_what_is_said_until_it_ends():
    async with echo() as port, before(port) as proxy, connection(proxy) as (reader, writer):
        await proxy.silence()
        writer.write(b"hello")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1000), 0.2)
        await proxy.silence(ends=True)
        assert await asyncio.wait_for(reader.read(1000), 10) == b"hello"


async def test_a_cut_resets_what_there_is_and_what_comes():
    async with echo() as port, before(port) as proxy:
        async with connection(proxy) as (reader, writer):
            assert await said(reader, writer, b"hello") == b"hello"
            await proxy.cut()
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1000), 10)
        async with connection(proxy) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1000), 10)
        await proxy.cut(ends=True)
        async with connection(proxy) as (reader, writer):
            assert await said(reader, writer, b"hello") == b"hello"


async def test_connections_are_spread_and_one_that_refuses_is_passed_over():
    async with echo(b"a") as one, echo(b"b") as other, before(one, 1, other) as proxy:
        heard = set()
        for _ in range(6):
            async with connection(proxy) as (reader, writer):
                heard.add(await said(reader, writer, b"!"))
        assert heard == {b"a!", b"b!"}


async def test_where_nobody_listens_the_caller_is_reset():
    async with before(1) as proxy, connection(proxy) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1000), 10)


async def test_several_run_on_a_thread_of_their_own():
    async with echo() as port:
        with Proxies(["one", "other"], lambda _: [port]) as proxies:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxies.ports["other"])
            proxies.cut("one")
            assert await said(reader, writer, b"hello") == b"hello"
            writer.close()
