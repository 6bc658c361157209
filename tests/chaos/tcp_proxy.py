"""Stands between the callers of a process and the process: lets through, delays, holds or resets what flows."""

import asyncio
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

# Closing with it sends RST, as a machine does that knows nothing of the connection.
_RESET = struct.pack("ii", 1, 0)
_CHUNK_BYTES = 65536


class TcpProxy:
    """One door. Connections are spread over `upstreams` in turn; one that refuses is passed over.

    `delay_seconds` comes on top in each direction. `silence` holds everything, as a network does that loses packets:
    what was under way arrives once it ends. `cut` resets what there is and whatever comes.
    """

    def __init__(self, upstreams: Callable[[], Sequence[int]]) -> None:
        self._upstreams = upstreams
        self._turn = itertools.count()
        self._connections: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False
        self._delay_seconds = 0.0
        self.port = 0

    async def open(self) -> None:
        """Listens on a free port of loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Ends every connection."""
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def delay(self, seconds: float) -> None:
        """From now on; 0 ends it."""
        self._delay_seconds = seconds

    async def silence(self, *, ends: bool = False) -> None:
        """Holds, or lets flow again."""
        if ends:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def cut(self, *, ends: bool = False) -> None:
        """Resets, or lets connect again."""
        self._is_cut = not ends
        for writer in list(self._connections) if self._is_cut else ():
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._connections.add(writer)
        try:
            await self._flowing.wait()
            upstream = None if self._is_cut else await self._connected()
            if upstream is None:
                _reset(writer)
                return
            self._connections.add(upstream[1])
            try:
                await asyncio.gather(self._pump(reader, upstream[1]), self._pump(upstream[0], writer))
            finally:
                self._connections.discard(upstream[1])
                upstream[1].transport.abort()
        except OSError:
            _reset(writer)
        finally:
            writer.close()
            self._connections.discard(writer)
            self._serving.discard(task)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        ports = list(self._upstreams())
        start = next(self._turn)
        for offset in range(len(ports)):
            try:
                return await asyncio.open_connection("127.0.0.1", ports[(start + offset) % len(ports)])
            except OSError:
                continue
        return None

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            await self._flowing.wait()
            writer.write(chunk)
            await writer.drain()
        # The other direction may go on.
        if writer.can_write_eof() and not writer.is_closing():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    taken: socket.socket | None = writer.get_extra_info("socket")
    if taken is not None and taken.fileno() >= 0:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


class Proxies:
    """Several, by name, on a thread of their own: what a test waits for does not hold them up."""

    def __init__(self, names: Sequence[str], upstreams: Callable[[str], Sequence[int]]) -> None:
        """`upstreams`: ports of the processes that a name stands for now; asked for each connection."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._by_name = {name: TcpProxy(lambda name=name: upstreams(name)) for name in names}

    def __enter__(self) -> "Proxies":
        self._thread.start()
        for one in self._by_name.values():
            self._run(one.open())
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._by_name.values():
            self._run(one.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def ports(self) -> dict[str, int]:
        """Where each listens."""
        return {name: one.port for name, one in self._by_name.items()}

    def delay(self, name: str, seconds: float) -> None:
        """As the proxy's; returns once it holds."""
        self._run(self._by_name[name].delay(seconds))

    def silence(self, name: str, *, ends: bool = False) -> None:
        """As the proxy's; returns once it holds."""
        self._run(self._by_name[name].silence(ends=ends))

    def cut(self, name: str, *, ends: bool = False) -> None:
        """As the proxy's; returns once it holds."""
        self._run(self._by_name[name].cut(ends=ends))

    def _run(self, doing: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result(10)
