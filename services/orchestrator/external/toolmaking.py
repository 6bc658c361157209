"""Makes the tools of a tenant's foreign servers, as far as they are approved."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from services.orchestrator.arguments import ForeignForm
from services.orchestrator.external import metrics
from services.orchestrator.external.approval import Judged, Standing, judged, schema_for_model
from services.orchestrator.external.remote import RemoteResult, RemoteTool
from services.orchestrator.results import Degraded, Found, Reply
from services.orchestrator.tool_maker import ToolMaker
from services.orchestrator.tools import Tool
from services.runtime.errors import InvalidField, ServiceError
from services.runtime.tenants import McpServer, Tenant

log = logging.getLogger(__name__)

_MAX_COMPLAINT_CHARS = 300


class Remote(Protocol):
    """Servers of foreign tools. Both raise ServiceError."""

    async def tools(self, tenant: str, server: McpServer) -> Mapping[str, RemoteTool]:
        """A server's tools by name."""
        ...

    async def call(
        self, tenant: str, server: McpServer, tool: RemoteTool, arguments: Mapping[str, Any]
    ) -> RemoteResult:
        """What a tool says."""
        ...


class ExternalTools:
    """Makes them."""

    def __init__(self, remote: Remote, maker: ToolMaker) -> None:
        self._remote = remote
        self._maker = maker
        self._told: dict[tuple[str, str], Standing] = {}

    async def of(self, tenant: Tenant, server: McpServer, names: Sequence[str]) -> dict[str, Tool | Degraded]:
        """A tool for each of `names` (as the model calls them) of one server, or why there is none. Never raises."""
        service = f"mcp:{server.name}"
        try:
            listed = await self._remote.tools(tenant.id, server)
        except ServiceError as error:
            metrics.REFUSED.labels("unreachable").inc(len(names))
            return dict.fromkeys(names, Degraded(service, error.message.rstrip(".")))
        made: dict[str, Tool | Degraded] = {}
        for one in judged(server, listed).values():
            name = server.tool_name(one.name)
            if name not in names:
                continue
            self._tell(tenant, name, one)
            if one.remote is not None and one.standing is Standing.APPROVED:
                made[name] = self._tool(tenant, server, name, one.remote)
            else:
                metrics.REFUSED.labels(one.standing.value).inc()
                made[name] = Degraded(service, f"{name}: {one.reason}")
        return made

    def _tool(self, tenant: Tenant, server: McpServer, name: str, remote: RemoteTool) -> Tool:
        async def call(arguments: dict[str, Any], seconds: float) -> Found:
            said = await self._remote.call(tenant.id, server, remote, arguments)
            if said.failed:
                raise InvalidField(f"{server.name} says: {_line(said.text)}")  # the run's shield judges it
            return Reply(name, json.dumps(arguments, sort_keys=True, ensure_ascii=False), said.text)

        own = tenant.tool(name)
        tool = self._maker.make(
            tenant,
            name,
            call,
            form=ForeignForm(schema_for_model(remote.schema)),
            result=Reply,
            description=remote.description.strip() or remote.name,
            appendix=f"(A tool of the external server `{server.name}`.)",
            data_version=json.dumps([remote.fingerprint, server.url, server.command, server.max_result_chars]),
            service=f"mcp:{server.name}",
            timeout_seconds=server.timeout_seconds,
        )
        # What a foreign tool says may be another thing the next moment, and calling it may be the point: only the
        # tenant's own word makes us remember it.
        kept = "cache_ttl_seconds" in own.model_fields_set
        return replace(
            tool, origin=server.name, writes=remote.writes, cache_ttl_seconds=tool.cache_ttl_seconds if kept else 0
        )

    def _tell(self, tenant: Tenant, name: str, one: Judged) -> None:
        """Says once in the log that a tool was refused, and again when that changes."""
        key = tenant.id, name
        if self._told.get(key, Standing.APPROVED) is not one.standing:
            log.warning("a foreign tool changed its standing", extra={"tool": name, "standing": one.standing.value})
            self._told[key] = one.standing


def _line(text: str) -> str:
    line = " ".join(text.split()) or "it failed"
    return line if len(line) <= _MAX_COMPLAINT_CHARS else line[: _MAX_COMPLAINT_CHARS - 1] + "…"
