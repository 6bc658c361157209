"""Starts the SQL tool."""

from collections.abc import Sequence

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime import server
from services.runtime.server import Served
from services.runtime.tenants import TenantDirectory
from services.sql_tool.config import Settings
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import PostgresDatabase
from services.sql_tool.service import SqlToolService
from services.sql_tool.tool import Bounds, SqlTool


async def build(settings: Settings) -> Sequence[Served]:
    """The servicer with its pools, and the tenants' files, which are watched. Raises BadTenantFile."""
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
    tenants.watch()

    async def close() -> None:
        await tenants.close()
        await connections.close()

    descriptor = pb.DESCRIPTOR.services_by_name["SqlToolService"]
    return [Served(SqlToolService(tool), rpc.add_SqlToolServiceServicer_to_server, descriptor, close=close)]


def main() -> None:
    """The process."""
    settings = Settings.read()
    server.run("sql_tool", settings, lambda: build(settings))


if __name__ == "__main__":
    main()
