"""Real servers on loopback ports, for tests."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from grpc import aio

from services.runtime import context
from services.runtime.channels import connect
from services.runtime.identity import Signer
from services.runtime.server import Served, build, set_health

SECRET = "for-tests-only-for-tests-only-32b"
SIGNER = Signer(SECRET)


def act_as(tenant: str, *scopes: str, principal: str = "test", labels: Sequence[str] = ()) -> None:
    """Makes the current task a caller of `tenant`: every channel of `connect` then carries its identity."""
    identity = context.Identity(tenant, principal, scopes, tuple(labels))
    context.enter(context.CallContext(identity, SIGNER.sign(identity)))


@asynccontextmanager
async def listening(served: Served, port: int = 0) -> AsyncGenerator[str]:
    """Serves on loopback, with the boundary and health of production; yields `host:port`."""
    server, health_servicer = build("test", [served], SIGNER)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    if served.warm_up is not None:
        await served.warm_up()
    await set_health(health_servicer, [served], True)
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        await server.stop(None)
        if served.close is not None:
            await served.close()


@asynccontextmanager
async def running(served: Served) -> AsyncGenerator[aio.Channel]:
    """Serves on loopback and yields a channel to it. Call `act_as` first to say who asks."""
    async with listening(served) as address, connect(address, served.descriptor) as channel:
        yield channel
