"""Starts the gateway: makes every concrete thing, serves until SIGTERM, then drains."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import uvicorn
import uvloop
from fastapi import FastAPI

from services.gateway.access.door import open_door
from services.gateway.access.valkey_store import valkey_access_store
from services.gateway.admission import Terms
from services.gateway.agent import Agent
from services.gateway.app import create_app
from services.gateway.clients import connected
from services.gateway.config import Settings
from services.gateway.feedback.valkey_ledger import valkey_ledger
from services.gateway.guards.chain import Guards
from services.gateway.guards.presidio import finder_of
from services.gateway.limits.fallback import fallback_limiter
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.limits.valkey import valkey_limiter
from services.gateway.mcp.changes import Changes
from services.gateway.mcp.endpoint import mcp_endpoint
from services.gateway.mcp.notices import valkey_notices
from services.gateway.mcp.sessions import Sessions
from services.gateway.pools.pool import pool_at
from services.gateway.pools.routing import ModelPools, pools_of
from services.gateway.queueing import QueueLimits, Runs
from services.gateway.status import Readiness
from services.gateway.streams.drain import Shutdown
from services.gateway.telemetry import access_log
from services.gateway.telemetry.bad_requests import Http
from services.gateway.telemetry.choices import Telemetry
from services.gateway.telemetry.log_lines import buffer
from services.runtime import garbage, telemetry
from services.runtime.identity import Signer
from services.runtime.listening import address_of
from services.runtime.settings import checked
from services.runtime.tenants import TenantDirectory

log = logging.getLogger(__name__)

# After the grace, at most: those who are still served are told that it is over, and only then cut.
_FAREWELL_SECONDS = 5.0
# Longer than the idle time of the usual load balancers, so that it is never us who close a connection in use.
_IDLE_SECONDS = 75


@dataclass(frozen=True)
class Gateway:
    """The application, and the switches that say it is going away."""

    app: FastAPI
    readiness: Readiness
    shutdown: Shutdown


@asynccontextmanager
async def build(settings: Settings) -> AsyncGenerator[Gateway]:
    """Makes everything that the settings name; closed at the end of the block. Raises BadTenantFile."""
    tenants = TenantDirectory(settings.tenants_dir)
    signer = Signer(settings.identity_secret.get_secret_value())
    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(
            connected(
                {
                    "orchestrator": settings.orchestrator_address,
                    "retrieval": settings.retrieval_address,
                    "ingestion": settings.ingestion_address,
                    "embedding": settings.embedding_address,
                    "reranking": settings.reranking_address,
                    "web_tool": settings.web_tool_address,
                    "tool_cache": settings.tool_cache_address,
                }
            )
        )
        pool = await stack.enter_async_context(_pools(settings))
        counting = valkey_limiter(
            settings.valkey_url,
            timeout_seconds=settings.limiter_timeout_seconds,
            lease_seconds=settings.limiter_lease_seconds,
            cluster=settings.valkey_cluster,
        )
        shared = await stack.enter_async_context(counting)
        limiting = fallback_limiter(shared, MemoryLimiter(), settings.replica_count)
        limiter = await stack.enter_async_context(limiting)
        ledger = await stack.enter_async_context(
            valkey_ledger(
                settings.valkey_url,
                most_entries=settings.feedback_entries,
                retention_seconds=settings.feedback_retention_days * 86_400,
            )
        )
        issued = valkey_access_store(
            settings.valkey_url, timeout_seconds=settings.limiter_timeout_seconds, cluster=settings.valkey_cluster
        )
        store = await stack.enter_async_context(issued)
        opening = open_door(tenants, settings.tenants_dir, signer, store, limiter, admin_tenant=settings.admin_tenant)
        door = await stack.enter_async_context(opening)
        readiness, shutdown = Readiness(clients.health, pool.states), Shutdown()
        notices = await stack.enter_async_context(valkey_notices(settings.valkey_url))
        mcp = await stack.enter_async_context(
            mcp_endpoint(
                clients,
                Sessions(settings.identity_secret.get_secret_value(), ttl_seconds=settings.mcp_session_seconds),
                Changes(tenants, lambda: readiness.draining, max_streams=settings.mcp_max_streams),
                notices,
                call_seconds=settings.mcp_call_seconds,
                allowed_hosts=settings.mcp_allowed_hosts,
                allowed_origins=settings.mcp_allowed_origins,
            )
        )
        app = create_app(
            keys=door.keys,
            admin=door.admin,
            limiter=limiter,
            terms=Terms(settings.reserved_output_tokens, settings.reserved_agent_tokens, settings.body_timeout_seconds),
            clients=clients,
            pool=pool,
            agent=Agent(
                clients,
                ledger,
                deadline_seconds=settings.answer_deadline_seconds,
                keep_alive_seconds=settings.stream_keep_alive_seconds,
                runs=Runs(settings.max_runs, _waiting(settings)),
            ),
            ledger=ledger,
            readiness=readiness,
            mcp=mcp,
            shutdown=shutdown,
            guards=Guards(finder_of(settings.pii_analyzer)),
            telling=Telemetry(settings.genai_semconv, settings.trace_content, settings.access_log),
        )
        tenants.watch()
        stack.push_async_callback(tenants.close)
        yield Gateway(app, readiness, shutdown)


def _pools(settings: Settings) -> contextlib.AbstractAsyncContextManager[ModelPools]:
    waiting = _waiting(settings)
    breath = settings.stream_keep_alive_seconds
    if settings.pools_file is not None:
        return pools_of(settings.pools_file, limits=waiting, keep_alive_seconds=breath)
    silence = settings.model_read_timeout_seconds
    only = pool_at(
        settings.model_url,
        every_address=settings.model_dns,
        max_in_flight=settings.model_max_in_flight,
        timeouts={
            "connect_seconds": settings.model_connect_timeout_seconds,
            "first_token_seconds": silence,
            "idle_seconds": silence,
            "total_seconds": silence,
        },
    )
    key = settings.model_api_key.get_secret_value()
    return pools_of(only, key, limits=waiting, keep_alive_seconds=breath)


def _waiting(settings: Settings) -> QueueLimits:
    return QueueLimits(
        most_waiting=settings.queue_most_waiting,
        most_waiting_per_tenant=settings.queue_most_waiting_per_tenant,
        ttl_seconds=settings.queue_seconds,
    )


class HttpServer(uvicorn.Server):
    """uvicorn, with the signals left to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def http_server(app: FastAPI, grace_seconds: float) -> HttpServer:
    """A server that is not listening yet. Requests that run at its end get `grace_seconds`."""
    return HttpServer(
        uvicorn.Config(
            app,
            http=Http,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            reset_contextvars=True,  # else the second of two requests sent at once begins in what the first has set
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
    )


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT. Ends with status 78 on wrong tenant files, 69 when the port is taken."""
    telemetry.start("gateway", settings)
    buffer(access_log.log, "gateway")
    stop = asyncio.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    with checked():
        async with build(settings) as gateway:
            await _serve_until(stop, gateway, settings)


async def _serve_until(stop: asyncio.Event, gateway: Gateway, settings: Settings) -> None:
    try:
        listener = listen(settings.host, settings.port)
    except OSError:
        log.error("port is taken", extra={"port": settings.port, "setting": "SABUESO_PORT"})
        raise SystemExit(69) from None  # EX_UNAVAILABLE
    server = http_server(gateway.app, settings.shutdown_grace_seconds + _FAREWELL_SECONDS)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    garbage.settle()
    log.info("serving", extra={"port": settings.port})
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        gateway.readiness.draining = gateway.shutdown.draining = True
        await asyncio.sleep(settings.shutdown_notice_seconds)
        server.should_exit = True
        await asyncio.wait({serving}, timeout=settings.shutdown_grace_seconds)
        gateway.shutdown.end()
    stopping.cancel()
    await serving


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `[::]` takes IPv4 too, and where there is no IPv6, IPv4 alone. Raises OSError."""
    host = address_of(host)
    if ":" not in host:
        listener = socket.create_server((host, port), backlog=2048)
    else:
        listener = socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=host == "::", backlog=2048)
    # Connections inherit it. Event loops set it only on sockets that name their protocol, which accepted ones do not;
    # without it a body that follows its header waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def main() -> None:
    """Entry point of the process."""
    uvloop.run(serve(Settings.read()))


if __name__ == "__main__":
    main()
