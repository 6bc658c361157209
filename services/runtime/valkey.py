"""Connections to Valkey or Redis whose callers can be cancelled."""

from typing import Any

from redis.asyncio import BlockingConnectionPool, Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError, ReadOnlyError


def connection_pool(
    url: str,
    *,
    max_connections: int | None = None,
    wait_seconds: float = 0,
    retries: int = 0,
    retry_after_seconds: float = 0,
    **options: Any,
) -> ConnectionPool:
    """Connections as they are needed; beyond `max_connections` callers wait for `wait_seconds`, or fail at once if 0.

    A connection that a restart of the server has cut, or that leads to a mere replica since a failover, is noticed when
    it is used, and given up: then a command is sent `retries` times more. Callers bound whole commands by
    `asyncio.timeout`: the library's own time limit of a socket writes through `asyncio.wait_for`, which before Python
    3.12 may swallow a cancellation, and a task that was told to end goes on.
    """
    lost = (ConnectionError, ReadOnlyError)
    settings: dict[str, Any] = {
        "socket_timeout": None,
        "max_connections": max_connections,
        "retry": Retry(ConstantBackoff(retry_after_seconds), retries, supported_errors=lost),
        **options,
    }
    if wait_seconds:
        pool = BlockingConnectionPool.from_url(url, timeout=wait_seconds, **settings)  # pyright: ignore[reportUnknownMemberType]
    else:
        pool = ConnectionPool.from_url(url, **settings)  # pyright: ignore[reportUnknownMemberType]
    pool.connection_class = _NOTICING.get(pool.connection_class, pool.connection_class)
    return pool


class _Noticing:
    """For a connection that was reset while nobody used it: uvloop raises RuntimeError, asyncio's loop an OSError."""

    async def send_packed_command(self, *arguments: Any, **options: Any) -> None:
        try:
            await super().send_packed_command(*arguments, **options)  # pyright: ignore
        except RuntimeError as error:
            raise ConnectionError("The connection was reset.") from error


class _NoticingConnection(_Noticing, Connection):
    pass


class _NoticingSSLConnection(_Noticing, SSLConnection):
    pass


_NOTICING: dict[type, type] = {Connection: _NoticingConnection, SSLConnection: _NoticingSSLConnection}
