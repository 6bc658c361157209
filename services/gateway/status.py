"""/healthz, /readyz, /metrics, and /v1/usage: how the gateway is, and how much a tenant has left."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from grpc import aio
from grpc_health.v1 import health_pb2
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from services.gateway.admission import caller_of
from services.gateway.limits.decision import Limiter
from services.gateway.limits.usage import usage_of

# Without these nothing can be answered; the others are reported, and their loss shows in `degraded`.
_REQUIRED = ("orchestrator", "retrieval")
_CHECK_SECONDS, _FRESH_SECONDS = 1.0, 1.0


class Readiness:
    """Whether this process can serve."""

    def __init__(self, health: Mapping[str, Any], pools: Callable[[], Mapping[str, str]] = dict[str, str]) -> None:
        """`pools`: each pool of models, "ok" or how much of it is there; a lost one leaves the others to be served."""
        self.draining = False
        self.pools = pools
        self._health = health
        self._known: dict[str, str] = {}
        self._checked_at = -_FRESH_SECONDS
        self._checking = asyncio.Lock()

    async def check(self) -> Mapping[str, str]:
        """State of each service, "ok" or why not; at most a second old."""
        async with self._checking:
            if time.monotonic() - self._checked_at >= _FRESH_SECONDS:
                states = await asyncio.gather(*(_state(stub) for stub in self._health.values()))
                self._known = dict(zip(self._health, states, strict=True))
                self._checked_at = time.monotonic()
            return self._known


class Status:
    """The endpoints."""

    def __init__(self, readiness: Readiness, limiter: Limiter) -> None:
        self._readiness = readiness
        self._limiter = limiter

    async def healthz(self) -> JSONResponse:
        """Whether the event loop runs; nothing else, so that a lost dependency restarts nobody."""
        return JSONResponse({"status": "ok"})

    async def readyz(self) -> JSONResponse:
        """Whether new requests should come here."""
        if self._readiness.draining:
            return JSONResponse({"status": "draining"}, 503)
        services = await self._readiness.check()
        ready = all(services[name] == "ok" for name in _REQUIRED)
        # Without their store the limits are less exact; requests are served all the same.
        limits = "degraded" if self._limiter.degraded else "ok"
        status = ("ok" if limits == "ok" else "degraded") if ready else "not ready"
        states = {"services": services, "pools": dict(self._readiness.pools()), "limits": limits}
        return JSONResponse({"status": status, **states}, 200 if ready else 503)

    async def metrics(self) -> Response:
        """Prometheus."""
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    async def usage(self, request: Request) -> JSONResponse:
        """The tenant's limits, its key's and its models', and what is used of them now. This request is counted in."""
        caller = caller_of(request)
        used = await usage_of(self._limiter, caller.tenant, caller.identity.principal, caller.key_limits)
        return JSONResponse({**used, "scopes": list(caller.identity.scopes)})


async def _state(stub: Any) -> str:
    try:
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_CHECK_SECONDS)
    except aio.AioRpcError as error:
        return error.code().name.lower()
    return "ok" if answer.status == health_pb2.HealthCheckResponse.SERVING else "not serving"
