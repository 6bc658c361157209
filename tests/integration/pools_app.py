"""Nothing but the pools behind HTTP on loopback: no keys, no limits; the tenant and the model come as headers."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import orjson
import uvicorn
from starlette.requests import Request
from uvicorn.server import ServerState

from services.gateway.access.callers import Caller
from services.gateway.errors import failure_of
from services.gateway.line import HungUp, Line
from services.gateway.metering import Meter
from services.gateway.pools.configuration import PoolConfiguration, PoolsFile
from services.gateway.pools.routing import ModelPools
from services.runtime.context import Identity
from services.runtime.tenants import Tenant
from services.runtime.testing import SIGNER

# No background task may change what a test counts, unless it asks for it.
QUIET = {"health": {"interval_seconds": 300, "load_interval_seconds": 60}}


def pool(*servers, **options) -> PoolConfiguration:
    """A pool of the given servers, which nobody watches but at the start."""
    replicas = [{"url": f"{server.url}/v1"} for server in servers]
    given = {"name": "main", "replicas": replicas, "models": ["mini-1"], "affinity": "none", **QUIET, **options}
    return PoolConfiguration.model_validate(given)


@dataclass
class Door:
    pools: ModelPools
    http: httpx2.AsyncClient = field(repr=False)
    meters: list[Meter] = field(default_factory=list)
    routings: list = field(default_factory=list)

    def body(self, model="mini-1", **fields):
        return {"model": model, "messages": [{"role": "user", "content": "¿Cuántos?"}], **fields}

    async def ask(self, model="mini-1", *, headers: Mapping[str, str] | None = None, path="chat/completions", **fields):
        return await self.http.post(f"/v1/{path}", json=self.body(model, **fields), headers=headers)

    async def stream(self, model="mini-1", **fields):
        """The text of a stream, its error if there was one, and whether it said that it was done."""
        response = await self.ask(model, stream=True, **fields)
        data = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
        events = [json.loads(one) for one in data if one != "[DONE]"]
        text = "".join(choice["delta"].get("content") or "" for event in events for choice in event.get("choices", ()))
        errors = [event["error"] for event in events if "error" in event]
        return text, errors[0] if errors else None, "[DONE]" in data


class App:
    def __init__(self, pools: ModelPools) -> None:
        self.pools = pools
        self.meters = []
        self.routings = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return
        line = Line(scope, receive, send)
        try:
            await line.serve(self._answer(scope, line))
        except HungUp:
            pass

    async def _answer(self, scope, line):
        request = Request(scope, line.receive)
        body = await request.body()
        request.state.body, request.state.asked = body, orjson.loads(body)
        request.state.meter, request.state.request_id = Meter(), "request-1"
        self.meters.append(request.state.meter)
        tenant = Tenant(
            id=request.headers.get("tenant", "demo"),
            priority=request.headers.get("band", "normal"),
            models=tuple(request.headers.get("models", "*").split()),
        )
        caller = Caller(tenant, Identity(tenant.id, "key", ()), "", SIGNER, internal="internal" in request.headers)
        try:
            response = await self.pools.relay(request, caller, request.state.asked["model"], request.url.path)
            self.routings.append(request.state.routing)
        except Exception as error:
            response = failure_of(error).response()
        await response(scope, line.receive, line.send)


@asynccontextmanager
async def relaying(*configurations: PoolConfiguration, keys: Mapping[str, str] | None = None, **options):
    """Yields the door to these pools."""
    pools = ModelPools(**options)
    app = App(pools)
    try:
        await pools.apply(PoolsFile(pools=configurations), keys or {})
        async with served_by(app) as door:
            yield door
    finally:
        await pools.close()


@asynccontextmanager
async def listening(app) -> AsyncGenerator[str]:
    """uvicorn's protocol without its server, which takes a third of a second to stop."""
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        while state.tasks:
            await asyncio.wait(state.tasks, timeout=1)


@asynccontextmanager
async def served_by(app: App) -> AsyncGenerator[Door]:
    limits = httpx2.Limits(max_connections=None)
    async with (
        listening(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False, limits=limits) as http,
    ):
        yield Door(app.pools, http, app.meters, app.routings)


async def until(fact, seconds=30.0):
    """Waits for a fact."""
    async with asyncio.timeout(seconds):
        while not fact():
            await asyncio.sleep(0.01)
