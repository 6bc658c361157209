"""Looks at every tenant's reader role before the service serves."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from prometheus_client import Gauge

from services.runtime.errors import ServiceError
from services.runtime.tenants import SqlSource, TenantDirectory

log = logging.getLogger(__name__)

SOURCES = Gauge(
    "sabueso_sql_tool_audited_sources",
    "Sources of all tenants at start: served, refused because the role may do more than read, or away.",
    ["verdict"],
)
_AT_ONCE = 8
_MOST_REASONS = 20


class ExcessiveRights(Exception):
    """A role may do more than read what its tenant's file allows; the message names tenants and reasons."""


class Auditor(Protocol):
    """What the start needs of the databases."""

    async def audit(self, tenant_id: str, source: SqlSource) -> Sequence[str]:
        """What the source's role may do besides reading. Raises ServiceError when the database is away."""
        ...


async def audit_roles(tenants: TenantDirectory, auditor: Auditor, *, refuse_start: bool) -> None:
    """Logs and counts the sources whose role may do more than read: these tenants are refused.

    A database that is away holds nobody up; its tenant is refused until it was audited. Raises ExcessiveRights when
    `refuse_start` and a role may do more.
    """
    places = asyncio.Semaphore(_AT_ONCE)

    async def verdict(tenant_id: str, source: SqlSource) -> tuple[str, str]:
        async with places:
            try:
                excess = await auditor.audit(tenant_id, source)
            except ServiceError as error:
                log.warning(
                    "a reader role cannot be audited",
                    extra={"tenant": tenant_id, "source": source.name, "reason": error.message},
                )
                return "away", ""
        if not excess:
            return "served", ""
        reasons = list(excess)[:_MOST_REASONS]
        log.error(
            "the reader role may do more than read",
            extra={"tenant": tenant_id, "source": source.name, "reasons": reasons},
        )
        return "refused", f"{tenant_id}/{source.name}: {'; '.join(reasons)}"

    found = await asyncio.gather(
        *(verdict(tenant.id, source) for tenant in tenants.all().values() for source in tenant.sql)
    )
    for name in ("served", "refused", "away"):
        SOURCES.labels(name).set(sum(one == name for one, _ in found))
    if refused := [reasons for one, reasons in found if one == "refused"]:
        if refuse_start:
            raise ExcessiveRights("\n".join(refused))
