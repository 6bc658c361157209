"""What gateways tell each other of MCP sessions: a cancellation may reach another one than the call that it ends."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.runtime import tasks
from services.runtime.valkey import connection_pool

log = logging.getLogger(__name__)

_CHANNEL = "sabueso:mcp:notices"
_PUBLISH_SECONDS = 1.0
_RETRY_SECONDS = 1.0
# A connection that a silent network has cut is noticed after about as long.
_ALIVE_SECONDS = 15


@dataclass(frozen=True)
class Notice:
    """A request was cancelled; `request_id` empty: the session has ended."""

    session: str
    request_id: str = ""


Hear = Callable[[Notice], None]


class Notices(Protocol):
    """A broadcast. What is told while somebody does not listen is lost to them."""

    async def tell(self, notice: Notice) -> None:
        """Tells everybody, oneself included. Never raises: who does not hear it works on until the call's end."""
        ...

    def listen(self, hear: Hear) -> None:
        """`hear` is called with each notice from now on."""
        ...


class LocalNotices:
    """Notices for one process, or for several gateways within one."""

    def __init__(self) -> None:
        self._listeners: list[Hear] = []

    async def tell(self, notice: Notice) -> None:
        """See Notices."""
        for hear in self._listeners:
            hear(notice)

    def listen(self, hear: Hear) -> None:
        """See Notices."""
        self._listeners.append(hear)


class ValkeyNotices(LocalNotices):
    """Notices by Valkey's publish and subscribe."""

    def __init__(self, client: Redis) -> None:
        super().__init__()
        self._client: Any = client
        self.subscribed = asyncio.Event()

    async def tell(self, notice: Notice) -> None:
        """See Notices."""
        try:
            async with asyncio.timeout(_PUBLISH_SECONDS):
                await self._client.publish(_CHANNEL, json.dumps([notice.session, notice.request_id]))
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("other gateways cannot be told of a cancellation", extra={"error": type(error).__name__})
            await super().tell(notice)

    async def follow(self) -> None:
        """Hears what is told, until it is cancelled."""
        while True:
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                async with self._client.pubsub() as channel:
                    await channel.subscribe(_CHANNEL)
                    await self._hear(channel)
            self.subscribed.clear()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _hear(self, channel: Any) -> None:
        while True:
            try:
                async with asyncio.timeout(_ALIVE_SECONDS):
                    message = await channel.parse_response()
            except TimeoutError:
                await channel.ping()
                async with asyncio.timeout(_ALIVE_SECONDS):
                    message = await channel.parse_response()
            match message:
                case [b"subscribe", *_]:
                    self.subscribed.set()
                case [b"message", _, bytes() as text]:
                    with contextlib.suppress(ValueError):
                        session, request_id = json.loads(text)
                        await super().tell(Notice(session, request_id))
                case _:  # the answer to a ping
                    pass


@asynccontextmanager
async def valkey_notices(url: str) -> AsyncGenerator[ValkeyNotices]:
    """Notices by the store at `url`, which may be away: then there are none until it is back."""
    client = Redis.from_pool(connection_pool(url))
    notices = ValkeyNotices(client)
    following = asyncio.create_task(notices.follow())
    try:
        yield notices
    finally:
        await tasks.end(following)
        await client.aclose()
