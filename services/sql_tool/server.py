"""Starts the SQL tool."""

import logging
import sys
from collections.abc import Sequence

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime import server
from services.runtime.channels import connect
from services.runtime.identity import Signer
from services.runtime.server import Served
from services.runtime.tenants import TenantDirectory
from services.sql_tool.audit import AuditLog
from services.sql_tool.changes import ChangeListener
from services.sql_tool.clients import TOOL_CACHE, ToolCacheClient
from services.sql_tool.config import Settings
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import PostgresDatabase
from services.sql_tool.service import SqlToolService
from services.sql_tool.startup import ExcessiveRights, audit_roles
from services.sql_tool.tool import Bounds, SqlTool

log = logging.getLogger(__name__)


async def build(settings: Settings) -> Sequence[Served]:
    """The servicer with its pools, and the tenants' files, which are watched. Raises BadTenantFile."""
    tenants = TenantDirectory(settings.tenants_dir)
    pooling = Pooling(settings.pool_size, settings.connect_timeout_seconds, settings.statement_timeout_seconds)
    connections = Connections(settings.secrets_dir, pooling)
    database = PostgresDatabase(connections, settings.max_cell_bytes)
    secret = settings.identity_secret.get_secret_value()
    tool = SqlTool(tenants, database, _bounds(settings), AuditLog(secret.encode()))
    cache = connect(settings.tool_cache_address, TOOL_CACHE) if settings.tool_cache_address else None
    listener = None
    if cache is not None:
        forget = ToolCacheClient(cache, Signer(secret)).invalidate
        listener = ChangeListener(tenants, connections.dsn, forget, note_change=connections.note_change)
    tenants.watch()

    async def warm_up() -> None:
        await audit_roles(tenants, database, refuse_start=settings.refuse_start_on_excess)
        await tool.warm_up()
        if listener is not None:
            listener.start()

    async def close() -> None:
        await tenants.close()
        if listener is not None:
            await listener.close()
        if cache is not None:
            await cache.close()
        await connections.close()

    descriptor = pb.DESCRIPTOR.services_by_name["SqlToolService"]
    add = rpc.add_SqlToolServiceServicer_to_server
    return [Served(SqlToolService(tool), add, descriptor, warm_up=warm_up, close=close)]


def _bounds(settings: Settings) -> Bounds:
    return Bounds(
        statement_seconds=settings.statement_timeout_seconds,
        cost=settings.max_cost,
        rows=settings.default_rows,
        result_bytes=settings.max_result_bytes,
        catalog_seconds=settings.catalog_seconds,
        description_tokens=settings.description_tokens,
        review_max_age_days=settings.review_max_age_days,
    )


def main() -> None:
    """The process. Ends with 1 when a tenant's role may do more than read."""
    settings = Settings.read()
    try:
        server.run("sql_tool", settings, lambda: build(settings))
    except ExcessiveRights:
        log.error("not started; SABUESO_REFUSE_START_ON_EXCESS=false refuses only these tenants")
        sys.exit(1)


if __name__ == "__main__":
    main()
