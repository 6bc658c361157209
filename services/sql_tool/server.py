"""Starts the SQL tool."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime import server
from services.runtime.server import Served
from services.runtime.tenants import BadTenantFile, TenantDirectory
from services.sql_tool.config import Settings
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import PostgresDatabase
from services.sql_tool.service import SqlToolService
from services.sql_tool.tool import Bounds, SqlTool

log = logging.getLogger(__name__)

_RELOAD_SECONDS = 2.0


async def build(settings: Settings) -> Sequence[Served]:
    """The servicer with its pools, and a task that follows the tenants' files. Raises BadTenantFile."""
    tenants = TenantDirectory(settings.tenants_dir)
    pooling = Pooling(settings.pool_size, settings.connect_timeout_seconds, settings.statement_timeout_seconds)
    connections = Connections(settings.secrets_dir, pooling)
    bounds = Bounds(
        statement_seconds=settings.statement_timeout_seconds,
        cost=settings.max_cost,
        rows=settings.default_rows,
        result_bytes=settings.max_result_bytes,
        catalog_seconds=settings.catalog_seconds,
        description_tokens=settings.description_tokens,
    )
    tool = SqlTool(tenants, PostgresDatabase(connections), bounds)
    following = asyncio.create_task(_follow(tenants))

    async def close() -> None:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await connections.close()

    descriptor = pb.DESCRIPTOR.services_by_name["SqlToolService"]
    return [Served(SqlToolService(tool), rpc.add_SqlToolServiceServicer_to_server, descriptor, close=close)]


async def _follow(tenants: TenantDirectory) -> None:
    while True:
        await asyncio.sleep(_RELOAD_SECONDS)
        try:
            tenants.reload()
        except OSError:  # a folder that is being replaced
            log.warning("the tenants' folder cannot be read; the last tenants stay in force")


def main() -> None:
    """The process."""
    settings = Settings.read()
    try:
        server.run("sql_tool", settings, lambda: build(settings))
    except BadTenantFile as error:
        print(f"tenants: {error}", file=sys.stderr)
        raise SystemExit(78) from None  # EX_CONFIG: a restart will not help


if __name__ == "__main__":
    main()
