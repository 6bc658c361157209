"""References of drift in PostgreSQL, beside the scores of live traffic."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from services.evaluation.online.references import Kept, packed, unpacked
from services.evaluation.postgres_pool import PostgresPool

_PUT = """
INSERT INTO drift_references (tenant, kind, value_count, reference) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, kind) DO UPDATE SET value_count = $3, reference = $4, made_at = now()
WHERE drift_references.value_count < $3
"""


class PostgresReferences:
    """A ReferenceStore over a connection. `dsn`: of a role that may create a schema `evaluation`, or owns it."""

    def __init__(self, dsn: str, *, timeout_seconds: float = 10) -> None:
        self._pool = PostgresPool(dsn, "sabueso-evaluation-drift", max_connections=1, timeout_seconds=timeout_seconds)

    async def open(self) -> None:
        """See ReferenceStore."""
        async with self._pool.opening() as connection:
            schema = files("services.evaluation.online").joinpath("references.sql").read_text(encoding="utf-8")
            await connection.execute(schema)

    async def close(self) -> None:
        """See ReferenceStore."""
        await self._pool.close()

    async def put(self, tenant: str, kind: str, values: Sequence[Any]) -> None:
        """See ReferenceStore."""
        async with self._pool.transaction() as connection:
            await connection.execute(_PUT, tenant, kind, len(values), packed(values))

    async def get(self, tenant: str) -> dict[str, list[Any]]:
        """See ReferenceStore."""
        async with self._pool.transaction() as connection:
            rows = await connection.fetch("SELECT kind, reference FROM drift_references WHERE tenant = $1", tenant)
        return unpacked({row["kind"]: row["reference"] for row in rows})

    async def kept(self) -> list[Kept]:
        """See ReferenceStore."""
        async with self._pool.transaction() as connection:
            rows = await connection.fetch("SELECT tenant, kind, value_count, made_at FROM drift_references")
        return sorted((Kept(*row) for row in rows), key=lambda one: (one.tenant, one.kind))

    async def delete(self, tenant: str, kind: str = "") -> int:
        """See ReferenceStore."""
        async with self._pool.transaction() as connection:
            done = await connection.execute(
                "DELETE FROM drift_references WHERE tenant = $1 AND $2 IN ('', kind)", tenant, kind
            )
        return int(str(done).rpartition(" ")[2])
