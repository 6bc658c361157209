"""Runs in PostgreSQL; the schema is made, and brought up to date, when the store is opened."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from importlib.resources import files
from typing import Any, cast

from services.evaluation.answered import Json
from services.evaluation.postgres_pool import PostgresPool
from services.evaluation.runs.record import Scored
from services.evaluation.runs.store import ABANDONED, Measurement, Run, RunStatus

_COLUMNS = "run_id, tenant, golden_set, created_at, status, reason, done_count, wanted_count, manifest"


class PostgresRunStore:
    """A RunStore over a pool of connections. `dsn`: of a role that may create a schema `evaluation`, or owns it."""

    def __init__(self, dsn: str, *, max_connections: int = 4, timeout_seconds: float = 10) -> None:
        self._pool = PostgresPool(
            dsn, "sabueso-evaluation", max_connections=max_connections, timeout_seconds=timeout_seconds
        )

    async def open(self) -> None:
        """See RunStore."""
        async with self._pool.opening() as connection:
            await _migrate(connection)

    async def close(self) -> None:
        """See RunStore."""
        await self._pool.close()

    async def create(self, run: Run) -> None:
        """See RunStore."""
        await self._execute(
            f"INSERT INTO runs ({_COLUMNS}, beat_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now())",
            *(run.run_id, run.tenant, run.golden_set, run.created_at, run.status.value, run.reason),
            *(run.done_count, run.wanted_count, json.dumps(run.manifest)),
        )

    async def set_status(self, run_id: str, status: RunStatus, reason: str = "") -> bool:
        """See RunStore."""
        done = await self._execute(
            "UPDATE runs SET status = $2, reason = $3, beat_at = now() "
            "WHERE run_id = $1 AND status IN ('waiting', 'running')",
            *(run_id, status.value, reason),
        )
        return done != "UPDATE 0"

    async def set_progress(self, run_id: str, done: int, wanted: int) -> None:
        """See RunStore."""
        await self._execute(
            "UPDATE runs SET done_count = $2, wanted_count = $3, beat_at = now() WHERE run_id = $1",
            *(run_id, done, wanted),
        )

    async def beat(self, run_id: str) -> None:
        """See RunStore."""
        await self._execute("UPDATE runs SET beat_at = now() WHERE run_id = $1", run_id)

    async def put_results(
        self, run_id: str, manifest: Mapping[str, Json], measurements: Sequence[Measurement], scored: Sequence[Scored]
    ) -> None:
        """See RunStore."""
        rows = [(run_id, place, *astuple(one)) for place, one in enumerate(measurements)]
        values = [
            (run_id, one.variant, one.score.metric, one.item_id, one.score.value, one.score.status.value)
            for one in scored
        ]
        async with self._pool.transaction() as connection:
            await connection.execute("UPDATE runs SET manifest = $2 WHERE run_id = $1", run_id, json.dumps(manifest))
            for table in ("measurements", "scores"):
                await connection.execute(f"DELETE FROM {table} WHERE run_id = $1", run_id)
            await connection.copy_records_to_table("measurements", records=rows)
            await connection.copy_records_to_table("scores", records=values)

    async def get(self, tenant: str, run_id: str) -> Run | None:
        """See RunStore."""
        found = await self._fetch(f"SELECT {_COLUMNS} FROM runs WHERE tenant = $1 AND run_id = $2", tenant, run_id)
        return _run(found[0]) if found else None

    async def measurements(self, run_id: str) -> list[Measurement]:
        """See RunStore."""
        found = await self._fetch(
            "SELECT variant, metric, stratum, language, mean, low, high, scored_count, missing_count "
            "FROM measurements WHERE run_id = $1 ORDER BY place",
            run_id,
        )
        return [Measurement(*row) for row in found]

    async def scores(self, run_id: str) -> list[tuple[str, str, str, float | None, str]]:
        """See RunStore."""
        found = await self._fetch(
            "SELECT variant, metric, item_id, value, status FROM scores WHERE run_id = $1", run_id
        )
        # The database sorts as its locale has it.
        return sorted(
            (cast(tuple[str, str, str, float | None, str], tuple(row)) for row in found), key=lambda row: row[:3]
        )

    async def list_runs(self, tenant: str, limit: int, before: str = "") -> list[Run]:
        """See RunStore."""
        found = await self._fetch(
            f"SELECT {_COLUMNS} FROM runs WHERE tenant = $1 AND ($2 = '' OR (created_at, run_id) < "
            "(SELECT created_at, run_id FROM runs WHERE run_id = $2)) ORDER BY created_at DESC, run_id DESC LIMIT $3",
            *(tenant, before, limit),
        )
        return [_run(row) for row in found]

    async def latest(self) -> list[Run]:
        """See RunStore."""
        found = await self._fetch(
            f"SELECT DISTINCT ON (tenant, golden_set) {_COLUMNS} FROM runs WHERE status IN ('done', 'failed') "
            "ORDER BY tenant, golden_set, created_at DESC, run_id DESC"
        )
        return sorted((_run(row) for row in found), key=lambda run: (run.tenant, run.golden_set))

    async def fail_abandoned(self, silent_seconds: float) -> int:
        """See RunStore."""
        done = await self._execute(
            "UPDATE runs SET status = 'failed', reason = $2 WHERE status IN ('waiting', 'running') "
            "AND beat_at <= now() - make_interval(secs => $1)",
            *(silent_seconds, ABANDONED),
        )
        return int(done.rpartition(" ")[2])

    async def _execute(self, statement: str, *values: object) -> str:
        async with self._pool.transaction() as connection:
            return str(await connection.execute(statement, *values))

    async def _fetch(self, statement: str, *values: object) -> list[Any]:
        async with self._pool.transaction() as connection:
            return list(await connection.fetch(statement, *values))


async def _migrate(connection: Any) -> None:
    """Runs the files of schema/ that this database has not seen, by number."""
    await connection.execute("CREATE TABLE IF NOT EXISTS schema_versions (name text PRIMARY KEY, made_at timestamptz)")
    known = {row[0] for row in await connection.fetch("SELECT name FROM schema_versions")}
    folder = files("services.evaluation.runs").joinpath("schema")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".sql") and file.name not in known:
            await connection.execute(file.read_text(encoding="utf-8"))
            await connection.execute("INSERT INTO schema_versions VALUES ($1, now())", file.name)


def _run(row: Any) -> Run:
    return Run(
        row["run_id"],
        row["tenant"],
        row["golden_set"],
        row["created_at"],
        RunStatus(row["status"]),
        row["reason"],
        row["done_count"],
        row["wanted_count"],
        json.loads(row["manifest"]),
    )
