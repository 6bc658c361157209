"""Tells the tool cache what has changed, so that no answer is made from results of before."""

import logging
from collections.abc import Sequence

from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from services.gateway.clients import CALL_SECONDS, Clients, answer_of
from services.runtime.errors import ServiceError

log = logging.getLogger(__name__)

# A deletion must not wait long for it: what the cache does not learn now, it finds out a few seconds later, because
# the state of the collections is part of what results are known by.
_DELETION_SECONDS = 1.0
_MAX_SOURCES = 64


async def forget_searches(clients: Clients, *collections: str) -> None:
    """Forgets results of document search, those of `collections`, or all where none is named. Never fails."""
    request = pb.InvalidateRequest(tool="" if collections else "vector_search")
    if collections:
        request.sources.extend(f"collection:{name}" for name in (*collections, "*"))
    try:
        await answer_of("tool_cache", clients.tool_cache.Invalidate(request, timeout=_DELETION_SECONDS))
    except Exception as error:
        reason = error.reason if isinstance(error, ServiceError) else type(error).__name__
        log.warning("cached searches were not forgotten", extra={"reason": reason})


async def forget_tables(clients: Clients, source: str, tables: Sequence[str]) -> None:
    """Forgets results that were made from tables (`schema.table`) of a database, or from any where none is named.

    Raises ServiceError.
    """
    names = [f"table:{source}/{table}" for table in tables]
    if not names or len(names) > _MAX_SOURCES:
        names = [f"source:{source}"]
    request = pb.InvalidateRequest(sources=names)
    await answer_of("tool_cache", clients.tool_cache.Invalidate(request, timeout=CALL_SECONDS))
