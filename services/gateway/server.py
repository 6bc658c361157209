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

from services.gateway.app import create_app
from services.gateway.chat import Chat
from services.gateway.clients import connected
from services.gateway.config import Settings
from services.gateway.keys import KeyRing
from services.gateway.limits import FallbackLimiter, MemoryLimiter
from services.gateway.pool import ModelPool, model_client
from services.gateway.status import Readiness
from services.gateway.valkey_limits import valkey_limiter
from services.runtime import telemetry
from services.runtime.identity import Signer
from services.runtime.settings import checked
from services.runtime.tenants import TenantDirectory

log = logging.getLogger(__name__)

# Between "not ready" and closed doors: load balancers need a moment to look elsewhere.
_NOTICE_SECONDS = 1.0
# Longer than the idle time of the usual load balancers, so that it is never us who close a connection in use.
_IDLE_SECONDS = 75


@dataclass(frozen=True)
class Gateway:
    """The application, and the switch that says it is going away."""

    app: FastAPI
    readiness: Readiness


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
        to_models = model_client(
            settings.model_url,
            settings.model_api_key.get_secret_value(),
            connect_seconds=settings.model_connect_timeout_seconds,
            read_seconds=settings.model_read_timeout_seconds,
        )
        pool = ModelPool(await stack.enter_async_context(to_models))
        counting = valkey_limiter(settings.valkey_url, timeout_seconds=settings.limiter_timeout_seconds)
        shared = await stack.enter_async_context(counting)
        readiness = Readiness(clients.health)
        app = create_app(
            keys=KeyRing(tenants, signer),
            limiter=FallbackLimiter(shared, MemoryLimiter(), settings.replica_count),
            clients=clients,
            pool=pool,
            chat=Chat(clients, pool, deadline_seconds=settings.answer_deadline_seconds),
            readiness=readiness,
        )
        tenants.watch()
        stack.push_async_callback(tenants.close)
        yield Gateway(app, readiness)


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
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
    )


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT. Ends with status 78 on wrong tenant files, 69 when the port is taken."""
    telemetry.start("gateway", settings)
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
    server = http_server(gateway.app, settings.shutdown_grace_seconds)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    log.info("serving", extra={"port": settings.port})
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        gateway.readiness.draining = True
        await asyncio.sleep(_NOTICE_SECONDS)
        server.should_exit = True
    stopping.cancel()
    await serving


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `[::]` takes IPv4 too, and where there is no IPv6, IPv4 alone. Raises OSError."""
    host = host.strip("[]")
    if ":" not in host or not socket.has_dualstack_ipv6():
        listener = socket.create_server(("0.0.0.0" if host == "::" else host, port), backlog=2048)
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
