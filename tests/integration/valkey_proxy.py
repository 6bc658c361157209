"""Stands between a client and Valkey, refuses commands and changes answers as a test wants it."""

import asyncio
import contextlib
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import hiredis


class Proxy:
    """`refused`: command (capitals) → text of the error. `change` gets each answer of a script and returns another."""

    def __init__(self, url):
        self.refused = {}
        self.change = lambda answer: answer
        self.commands = []
        self.url = ""
        self._upstream = urlsplit(url)
        self._demoted = {}
        self.serving = set()

    def fail_over(self):
        """Leads to a server that refuses nothing; the connections that there are stay with the one before."""
        self._demoted = dict.fromkeys(self.serving, self.refused)
        self.refused = {}

    async def serve(self, reader, writer):
        self.serving.add(asyncio.current_task())
        to_store, from_store = hiredis.Reader(), hiredis.Reader()
        store_reader, store_writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        try:
            while chunk := await reader.read(65536):
                to_store.feed(chunk)
                while (command := to_store.gets()) is not False:
                    writer.write(await self._answer(command, store_reader, store_writer, from_store))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            store_writer.close()
            writer.close()

    async def _answer(self, command, reader, writer, replies):
        name = command[0].decode().upper()
        self.commands.append(name)
        refused = self._demoted.get(asyncio.current_task(), self.refused)
        if name in refused:
            return f"-{refused[name]}\r\n".encode()
        writer.write(hiredis.pack_command(tuple(command)))
        while (answer := replies.gets()) is False:
            replies.feed(await reader.read(65536))
        return encoded(self.change(answer) if name.startswith("EVAL") else answer)


def encoded(answer):
    match answer:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % answer
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(answer), answer)
        case list():
            return b"*%d\r\n%s" % (len(answer), b"".join(map(encoded, answer)))
        case _:
            return f"-{answer}\r\n".encode()


@asynccontextmanager
async def valkey_proxy(url):
    proxy = Proxy(url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}?protocol=2"
    try:
        yield proxy
    finally:
        server.close()
        for task in proxy.serving:
            task.cancel()
        await asyncio.gather(*proxy.serving, return_exceptions=True)


@asynccontextmanager
async def mute_server():
    """Takes connections and never answers."""

    async def listen(reader, writer):
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
