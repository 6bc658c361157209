"""Scores of live traffic in PostgreSQL, beside the runs over golden sets."""

import statistics
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from services.evaluation.online.offered import Offered, tool_mix, top_score
from services.evaluation.online.store import Agreement
from services.evaluation.postgres_pool import PostgresPool
from services.evaluation.score import Score

_PUT = """
INSERT INTO online_answers (tenant, answer_id, language, finish, strategy, model, trace_id, tools, retrieval_score,
  total_milliseconds)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (tenant, answer_id) DO UPDATE SET measured_at = now()
"""
_PUT_SCORE = """
INSERT INTO online_scores (tenant, answer_id, metric, value, status, judge) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, answer_id, metric) DO UPDATE SET value = $4, status = $5, judge = $6
"""
_AGREEMENT = """
SELECT metric, CASE WHEN feedback > 0 THEN 'up' WHEN feedback < 0 THEN 'down' ELSE 'none' END AS rating,
  avg(value), count(*)
FROM online_scores JOIN online_answers USING (tenant, answer_id)
WHERE tenant = $1 AND value IS NOT NULL GROUP BY 1, 2
"""


class PostgresScoreStore:
    """A ScoreStore over a pool of connections. `dsn`: of a role that may create a schema `evaluation`, or owns it."""

    def __init__(self, dsn: str, *, max_connections: int = 2, timeout_seconds: float = 10) -> None:
        self._pool = PostgresPool(
            dsn, "sabueso-evaluation-online", max_connections=max_connections, timeout_seconds=timeout_seconds
        )

    async def open(self) -> None:
        """See ScoreStore."""
        async with self._pool.opening() as connection:
            schema = files("services.evaluation.online").joinpath("schema.sql").read_text(encoding="utf-8")
            await connection.execute(schema)

    async def close(self) -> None:
        """See ScoreStore."""
        await self._pool.close()

    async def put(self, offered: Offered, scores: Sequence[Score], judge: str) -> None:
        """See ScoreStore."""
        one = offered.answered
        key = one.tenant, one.answer_id
        async with self._pool.transaction() as connection:
            await connection.execute(
                _PUT,
                *key,
                *(one.language, one.finish, one.strategy, one.model, one.trace_id, tool_mix(one)),
                *(top_score(one), one.milliseconds.get("total")),
            )
            rows = [(*key, score.metric, score.value, score.status.value, judge) for score in scores]
            await connection.executemany(_PUT_SCORE, rows)

    async def put_feedback(self, tenant: str, said: Mapping[str, Sequence[float]]) -> int:
        """See ScoreStore."""
        if not said:
            return 0
        async with self._pool.transaction() as connection:
            done = await connection.execute(
                "UPDATE online_answers SET feedback = told.mean, feedback_count = told.count "
                "FROM unnest($2::text[], $3::float8[], $4::int[]) AS told (answer_id, mean, count) "
                "WHERE tenant = $1 AND online_answers.answer_id = told.answer_id",
                tenant,
                list(said),
                [statistics.fmean(scores) for scores in said.values()],
                [len(scores) for scores in said.values()],
            )
        return _count(done)

    async def agreement(self, tenant: str) -> list[Agreement]:
        """See ScoreStore."""
        async with self._pool.transaction() as connection:
            rows = await connection.fetch(_AGREEMENT, tenant)
        return sorted((Agreement(*row) for row in rows), key=lambda one: (one.metric, one.rating))

    async def forget(self, days: int) -> int:
        """See ScoreStore."""
        async with self._pool.transaction() as connection:
            done = await connection.execute(
                "DELETE FROM online_answers WHERE measured_at < now() - make_interval(days => $1)", days
            )
        return _count(done)


def _count(done: Any) -> int:
    """Of the rows that a statement changed, by what the server says of it."""
    return int(str(done).rpartition(" ")[2])
