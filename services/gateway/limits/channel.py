"""One connection to Valkey that many calls share: commands go out as they come, answers come back in their order.

The client's own way, a connection a call out of a pool, costs thrice the processor time, at the door of every request;
its reading and writing on a connection that is shared already still costs twice of what is here.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import ConnectionError, InvalidResponse, NoScriptError, ResponseError

Part = str | int
# Its stub knows commands of one word only.
_pack: Callable[[tuple[Part, ...]], bytes] = cast(Any, hiredis).pack_command


class Store(Protocol):
    """Takes commands. Raises RedisError, OSError, and TimeoutError where it has waited for too long."""

    def call(self, *command: Part, at_once: bool = False) -> Awaitable[Any]:
        """The answer to a command; it is sent before this returns if `at_once`, else it may go out with others."""
        ...

    def drop(self) -> None:
        """Somebody has waited too long: what is open may be dead, and is not used again."""
        ...


class Cluster:
    """A cluster, whose client finds the server of each key by itself."""

    def __init__(self, client: RedisCluster, timeout_seconds: float) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds

    async def call(self, *command: Part, at_once: bool = False) -> Any:
        async with asyncio.timeout(self._timeout_seconds):
            return await self._client.execute_command(*command)

    def drop(self) -> None:
        """Its client sees to its connections."""


class Channel:
    """Opens its connection when it is needed, and another one when that is lost."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        """`pool` makes the connections; RESP2, in which nothing comes unasked. `timeout_seconds`: for an answer."""
        self._pool = pool
        self._timeout_seconds = timeout_seconds
        self._wire: _Wire | None = None
        self._opening = asyncio.Lock()

    def call(self, *command: Part, at_once: bool = False) -> Awaitable[Any]:
        wire = self._wire
        if wire is None or wire.is_lost:
            return self._call_anew(command)
        return wire.call(command, at_once)

    def drop(self) -> None:
        if self._wire is not None:
            self._wire.lose(ConnectionError("The connection was given up."))

    async def close(self) -> None:
        """Fails whoever still waits."""
        self.drop()

    async def _call_anew(self, command: tuple[Part, ...]) -> Any:
        async with asyncio.timeout(self._timeout_seconds):
            wire = await self._open()
        return await wire.call(command, at_once=True)

    async def _open(self) -> "_Wire":
        async with self._opening:
            if self._wire is None or self._wire.is_lost:
                connection: Any = self._pool.make_connection()
                try:
                    await connection.connect()
                except BaseException:
                    await connection.disconnect(nowait=True)
                    raise
                # It has said who we are, and over TLS where it must; what follows needs no more of it.
                self._wire = _Wire(connection, connection._writer.transport, self._timeout_seconds)
            return self._wire


class _Wire(asyncio.Protocol):
    """A connection, and those who wait for its answers, first come first."""

    def __init__(self, connection: Any, transport: asyncio.Transport, timeout_seconds: float) -> None:
        self.is_lost = False
        self._connection = connection
        self._transport = transport
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=_error_of)
        self._unsent: list[bytes] = []
        # Since when, and who.
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        transport.set_protocol(self)

    def call(self, command: tuple[Part, ...], at_once: bool) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._loop.create_future()
        at_once = at_once or not self._waiting
        self._waiting.append((self._loop.time(), answer))
        self._unsent.append(_pack(command))
        if at_once:
            self._send()
        elif len(self._unsent) == 1:
            self._loop.call_soon(self._send)
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_seconds, self._look)
        return answer  # whoever cancels it waits no more; its place in the queue stays

    def lose(self, reason: Exception) -> None:
        """Ends it: all who wait are told."""
        if self.is_lost:
            return
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        for _, waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(reason)
        self._waiting.clear()
        self._transport.abort()
        self._connection._close()  # which would complain of it when it is collected

    def _send(self) -> None:
        if self._unsent and not self.is_lost:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _look(self) -> None:
        self._timer = None
        if self._waiting:
            left = self._waiting[0][0] + self._timeout_seconds - self._loop.time()
            if left <= 0:
                return self.lose(TimeoutError())
            self._timer = self._loop.call_later(left, self._look)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets()) is not False:
                _, waiting = self._waiting.popleft()
                if waiting.done():
                    continue
                if isinstance(answer, ResponseError):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)
        except (InvalidResponse, IndexError):  # no answer, or one to nothing
            self.lose(ConnectionError("The store says what nobody understands."))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose(ConnectionError("The connection was lost."))


def _error_of(message: str) -> ResponseError:
    return NoScriptError(message) if message.startswith("NOSCRIPT") else ResponseError(message)
