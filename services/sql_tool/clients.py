"""The tool cache as `changes.py` wants it."""

from collections.abc import Sequence

from grpc import aio

from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc as rpc
from services.runtime import context, errors
from services.runtime.context import CallContext, Identity
from services.runtime.identity import Signer

TOOL_CACHE = pb.DESCRIPTOR.services_by_name["ToolCacheService"]
_SECONDS = 5


class ToolCacheClient:
    """Forgets results over gRPC. Nobody's call is behind it: it acts for the tenant itself."""

    def __init__(self, channel: aio.Channel, signer: Signer) -> None:
        self._stub = rpc.ToolCacheServiceStub(channel)
        self._signer = signer

    async def invalidate(self, tenant_id: str, sources: Sequence[str]) -> None:
        """See Invalidate. The task that calls it acts for the tenant from then on."""
        identity = Identity(tenant_id, "sql-tool")
        context.enter(CallContext(identity, self._signer.sign(identity)))
        try:
            await self._stub.Invalidate(pb.InvalidateRequest(sources=sources), timeout=_SECONDS)
        except aio.AioRpcError as error:
            failed = errors.DependencyFailed("tool_cache failed.", dependency="tool_cache")
            raise errors.from_rpc(error, "tool_cache") or failed from error
