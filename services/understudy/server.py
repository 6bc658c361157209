"""Builds and serves the understudy: `python -m services.understudy.server`."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Generator

import uvicorn
import uvloop

from services.runtime import garbage, telemetry
from services.runtime.listening import address_of
from services.understudy.app import build_app
from services.understudy.config import Settings
from services.understudy.warming import warm_up

log = logging.getLogger(__name__)
# Longer than the idle time of the gateway's connections: a server that closes first loses requests.
_KEEP_ALIVE_SECONDS = 75


class _Server(uvicorn.Server):
    """uvicorn without its signal handling, which kills the process by the same signal after a clean stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def build(settings: Settings) -> uvicorn.Server:
    """The server, not yet listening."""
    config = uvicorn.Config(
        build_app(settings),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.shutdown_grace_seconds) or 1,
    )
    return _Server(config)


def listen(settings: Settings) -> socket.socket:
    """A listening socket. `[::]` takes IPv4 too. Ends the process with status 69 when the port is taken."""
    host = address_of(settings.host)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, settings.port), family=family, backlog=2048, dualstack_ipv6=host == "::")
    except OSError:
        log.error("port is taken", extra={"port": settings.port, "setting": "SABUESO_PORT"})
        raise SystemExit(69) from None  # EX_UNAVAILABLE


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT, then refuses new connections and lets running answers finish."""
    telemetry.start("understudy", settings)
    server = build(settings)
    await warm_up(settings.model_name)
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, setattr, server, "should_exit", True)
    with listen(settings) as listener:
        garbage.settle()
        log.info("serving", extra={"port": listener.getsockname()[1], "latency_profile": settings.latency_profile})
        await server.serve(sockets=[listener])


def main() -> None:
    """Entry point."""
    uvloop.run(serve(Settings.read()))


if __name__ == "__main__":
    main()
