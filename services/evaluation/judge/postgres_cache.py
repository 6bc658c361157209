"""Answers of judges in PostgreSQL, so that a run asks for nothing that another one did, wherever it was."""

import logging

from services.evaluation.postgres_pool import PostgresPool
from services.runtime.errors import ServiceError

log = logging.getLogger(__name__)

# Longer than the slowest habit of running a set, so that what is asked again is still there.
_KEPT_DAYS = 90
_SCHEMA = """
CREATE TABLE IF NOT EXISTS judge_answers (
  key text PRIMARY KEY,
  answer text NOT NULL,
  used_at timestamptz NOT NULL DEFAULT now()
)
"""
_GET = """
WITH used AS (
  UPDATE judge_answers SET used_at = now() WHERE key = $1 AND used_at < now() - interval '1 day'
)
SELECT answer FROM judge_answers WHERE key = $1
"""


class PostgresCache:
    """An AnswerCache. `dsn`: of a role that may create a schema `evaluation`, or owns it.

    A database that is lost later costs calls of the judge and no run: it is as if nothing were there.
    """

    def __init__(self, dsn: str, *, timeout_seconds: float = 5) -> None:
        self._pool = PostgresPool(dsn, "sabueso-evaluation-judge", max_connections=2, timeout_seconds=timeout_seconds)

    async def open(self) -> None:
        """Connects, and deletes what nobody asked for in 90 days. Raises DependencyFailed."""
        async with self._pool.opening() as connection:
            await connection.execute(_SCHEMA)
            await connection.execute(
                "DELETE FROM judge_answers WHERE used_at < now() - make_interval(days => $1)", _KEPT_DAYS
            )

    async def close(self) -> None:
        """Lets go."""
        await self._pool.close()

    async def get(self, key: str) -> str | None:
        """See AnswerCache."""
        try:
            async with self._pool.transaction() as connection:
                found = await connection.fetchval(_GET, key)
        except ServiceError as error:
            log.warning("answers of judges are not read", extra={"reason": error.message})
            return None
        return None if found is None else str(found)

    async def put(self, key: str, text: str) -> None:
        """See AnswerCache."""
        try:
            async with self._pool.transaction() as connection:
                await connection.execute(
                    "INSERT INTO judge_answers (key, answer) VALUES ($1, $2) ON CONFLICT DO NOTHING", key, text
                )
        except ServiceError as error:
            log.warning("answers of judges are not kept", extra={"reason": error.message})
