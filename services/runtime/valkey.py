"""Connections to Valkey or Redis whose callers can be cancelled."""

from typing import Any

from redis.asyncio import BlockingConnectionPool, ConnectionPool
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
        return BlockingConnectionPool.from_url(url, timeout=wait_seconds, **settings)  # pyright: ignore[reportUnknownMemberType]
    return ConnectionPool.from_url(url, **settings)  # pyright: ignore[reportUnknownMemberType]
