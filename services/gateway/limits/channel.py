"""One connection to Valkey that many calls share: commands go out as they come, answers come back in their order.

The client's own way, a connection a call out of a pool, costs thrice the processor time, at the door of every request.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError, RedisError, ResponseError

Part = str | int
# Its stub knows commands of one word only.
_pack: Callable[[tuple[Part, ...]], bytes] = cast(Any, hiredis).pack_command


class Store(Protocol):
    """Takes commands. Raises RedisError and OSError."""

    async def call(self, *command: Part) -> Any:
        """The answer to a command."""
        ...

    def drop(self) -> None:
        """Somebody has waited too long: what is open may be dead, and is not used again."""
        ...


class Cluster:
    """A cluster, whose client finds the server of each key by itself."""

    def __init__(self, client: RedisCluster) -> None:
        self._client = client

    async def call(self, *command: Part) -> Any:
        return await self._client.execute_command(*command)

    def drop(self) -> None:
        """Its client sees to its connections."""


class Channel:
    """Opens its connection when it is needed, and another one when that is lost."""

    def __init__(self, pool: ConnectionPool) -> None:
        """`pool` makes the connections; RESP2, in which nothing comes unasked."""
        self._pool = pool
        self._wire: _Wire | None = None
        self._opening = asyncio.Lock()

    async def call(self, *command: Part) -> Any:
        wire = self._wire
        if wire is None or wire.is_lost:
            wire = await self._open()
        return await wire.call(command)

    def drop(self) -> None:
        if self._wire is not None:
            self._wire.lose()

    async def close(self) -> None:
        """Fails whoever still waits."""
        if self._wire is not None:
            self._wire.lose()
            await self._wire.closed()

    async def _open(self) -> "_Wire":
        async with self._opening:
            if self._wire is None or self._wire.is_lost:
                connection = self._pool.make_connection()
                try:
                    await connection.connect()
                except BaseException:
                    await connection.disconnect(nowait=True)
                    raise
                self._wire = _Wire(connection)
            return self._wire


class _Wire:
    """A connection, and those who wait for its answers, first come first."""

    def __init__(self, connection: AbstractConnection) -> None:
        self.is_lost = False
        self._connection = connection
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._reading = asyncio.create_task(self._read())

    async def call(self, command: tuple[Part, ...]) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        try:
            # Nothing else runs between the two: an answer's place is that of its command.
            await self._connection.send_packed_command(_pack(command), check_health=False)
            return await answer
        finally:
            answer.cancel()  # no more than a note that nobody waits; the place in the queue stays

    def lose(self) -> None:
        """Ends it: all who wait are told."""
        self.is_lost = True
        self._reading.cancel()

    async def closed(self) -> None:
        """Waits until it is."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    async def _read(self) -> None:
        lost: Exception = ConnectionError("The connection was given up.")
        try:
            while True:
                answer = await self._next()
                waiting = self._waiting.popleft()
                if waiting.done():
                    continue
                if isinstance(answer, ResponseError):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)
        except (RedisError, OSError) as error:
            lost = error
        finally:
            self.is_lost = True
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(lost)
            await self._connection.disconnect(nowait=True)

    async def _next(self) -> Any:
        try:
            return cast(Any, await self._connection.read_response(timeout=math.inf, disconnect_on_error=False))
        except ResponseError as error:
            return error
