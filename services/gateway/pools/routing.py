"""All pools together: what may be called by which name, and the way of a request to its answer."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.access.callers import Caller
from services.gateway.errors import ApiError
from services.gateway.metering import Meter
from services.gateway.pools.configuration import AGENT, BadPoolsFile, PoolConfiguration, PoolsFile, fingerprint, key_of
from services.gateway.pools.configuration import load as load_file
from services.gateway.pools.discovery import DnsNames, Names
from services.gateway.pools.dispatch import Call, Dispatcher, Routing, renamed
from services.gateway.pools.forwarding import forwarded
from services.gateway.pools.pool import Pool
from services.gateway.queueing import QueueLimits
from services.gateway.streams.asking import outgoing
from services.gateway.streams.relay import answer
from services.runtime import tasks

log = logging.getLogger(__name__)

# How old a list of models may be: to answer from, and to say from it that a model does not exist.
_MODELS_SECONDS, _NEW_MODEL_SECONDS = 5.0, 1.0
_MOST_SESSION_CHARS = 256


class ModelPools:
    """The pools of a file, or one of a setting; follows the file's changes."""

    def __init__(
        self,
        names: Names | None = None,
        limits: QueueLimits | None = None,
        *,
        keep_alive_seconds: float = 15,
        look_seconds: float = 2,
    ) -> None:
        """A stream gets a comment after `keep_alive_seconds` of silence; the file is looked at every `look_seconds`."""
        self.failed_reloads = 0
        self._names = names or DnsNames()
        self._limits = limits or QueueLimits()
        self._keep_alive_seconds = keep_alive_seconds
        self._look_seconds = look_seconds
        self.pools: dict[str, Pool] = {}
        self._aliases: dict[str, str] = {}
        self._dispatcher = Dispatcher(lambda: list(self.pools.values()))
        self._watching: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def apply(self, file: PoolsFile, keys: Mapping[str, str]) -> None:
        """Puts the file in force. `keys`: the pools' keys by name. Answers that run go on as they are."""
        gone = [pool for name, pool in self.pools.items() if name not in {one.name for one in file.pools}]
        pools: dict[str, Pool] = {}
        for configuration in file.pools:
            if configuration.fallback:
                configuration = configuration.model_copy(update={"fallback": file.resolve(configuration.fallback)})
            key = keys.get(configuration.name, "")
            pool = self.pools.get(configuration.name)
            if pool is None:
                pool = Pool(configuration, key, self._names, self._limits)
                await pool.start()
            else:
                await pool.configure(configuration, key)
            pools[configuration.name] = pool
        self.pools = pools
        self._aliases = {alias: file.resolve(alias) for alias in file.aliases()}
        for pool in gone:
            await pool.close()

    def follow(self, path: Path, seen: list[str] | None = None) -> None:
        """Begins to look at the file every few seconds, until `close`. `seen`: as it was when read."""
        self._watching = asyncio.create_task(self._follow(path, self._seen(path) if seen is None else seen))

    async def close(self) -> None:
        """Watches no more, and closes what is idle."""
        await tasks.end(self._watching, self._refreshing)
        for pool in self.pools.values():
            await pool.close()

    def resolve(self, model: str) -> str:
        """The served name behind an alias; other names as they are."""
        return self._aliases.get(model, model)

    def known(self, model: str) -> bool:
        """Whether a pool is known to serve it, by this name or an alias. Does not ask anybody."""
        return any(self.resolve(model) in (pool.models() or ()) for pool in self.pools.values())

    async def serves(self, model: str) -> bool:
        """As `known`, by lists that are at most some seconds old."""
        if not self.known(model):
            await self._list_models(_NEW_MODEL_SECONDS)
        return self.known(model)

    async def models_of(self, caller: Caller) -> list[str]:
        """Names that the caller may call, aliases last, as of some seconds ago."""
        await self._list_models(_MODELS_SECONDS)
        return [name for name in self._all_names() if caller.may_call(self.resolve(name))]

    def states(self) -> dict[str, str]:
        """Each pool by name: `ok`, or what of it is not well."""
        return {name: pool.state() for name, pool in self.pools.items()}

    async def relay(self, request: Request, caller: Caller, model: str, path: str = "/v1/chat/completions") -> Response:
        """The answer of a pool's server to the request, byte for byte.

        `path`: the endpoint, with its `/v1`. The body is Admission's, in `request.state`.
        Raises ApiError (no such model, or not the caller's; the queue is full; every server is busy), Overloaded,
        DependencyFailed and DeadlineExceeded.
        """
        served = self.resolve(model)
        await self._check(caller, model, served)
        state: MutableMapping[str, Any] = request.scope["state"]
        body: bytes = state["body"]
        if served != model:
            body = renamed(body, served)
        meter: Meter = state["meter"]
        meter.model = meter.model or served
        state["routing"] = routing = Routing()
        call = Call(
            model=served,
            outgoing=outgoing(path, body, state["asked"]),
            headers=forwarded(request.headers, state["request_id"]),
            asked=state["asked"],
            tenant=caller.tenant.id,
            meter=meter,
            may_call=caller.may_call,
            band=caller.tenant.priority,
            internal=caller.internal,
            session=request.headers.get("x-session-id", "")[:_MOST_SESSION_CHARS],
            routing=routing,
        )
        opening = self._dispatcher.open(call)
        return await answer(opening, call.outgoing, meter=meter, keep_alive_seconds=self._keep_alive_seconds)

    async def require(self, caller: Caller, model: str, param: str) -> str:
        """The served name behind `model`. Raises a 403 or 404 that names `param` where the caller may not ask it."""
        caller.require("models")
        served = self.resolve(model)
        await self._check(caller, model, served, param)
        return served

    async def _check(self, caller: Caller, model: str, served: str, param: str = "model") -> None:
        if caller.may_call(served):
            if self.known(served):
                return
            await self._list_models(_NEW_MODEL_SECONDS)
            # A pool that has never said what it serves may serve it: it will say so itself.
            pools = self.pools.values()
            if self.known(served) or any(pool.serving(served) or pool.models() is None for pool in pools):
                return
        known = ", ".join([AGENT, *await self.models_of(caller)])
        message = f"The model `{model[:100]}` does not exist or is not yours to call. You may call: {known}."
        raise ApiError(404, message, code="model_not_found", param=param)

    def _all_names(self) -> list[str]:
        served = dict.fromkeys(name for pool in self.pools.values() for name in pool.models() or ())
        aliases = [alias for alias, target in self._aliases.items() if target in served]
        # A server may list whatever it likes: what is ours by that name is what is called by it.
        return [*(name for name in served if name not in self._aliases and name != AGENT), *aliases]

    async def _list_models(self, most_age_seconds: float) -> None:
        await asyncio.gather(*(pool.list_models(most_age_seconds) for pool in list(self.pools.values())))

    def _seen(self, path: Path) -> list[str]:
        return _seen(path, [pool.configuration for pool in self.pools.values()])

    async def _follow(self, path: Path, seen: list[str]) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            now = self._seen(path)
            if now == seen or not now:  # unchanged, or just being replaced
                continue
            seen = now
            try:
                file, keys = read(path)
            except BadPoolsFile as error:
                self.failed_reloads += 1
                log.error("the pools' file is wrong; the last good one stays in force", extra={"reason": str(error)})
                continue
            # Not after it was put in force, which can take seconds: what changes meanwhile would never be seen.
            seen = [now[0], *_seen(path, file.pools)[1:]]
            try:
                await self.apply(file, keys)
            except Exception:
                log.exception("the pools' file could not be put in force")
                continue
            log.info("the pools' file was read again")


@asynccontextmanager
async def pools_of(
    source: Path | PoolConfiguration,
    key: str = "",
    *,
    limits: QueueLimits | None = None,
    keep_alive_seconds: float = 15,
) -> AsyncGenerator[ModelPools]:
    """The pools of a file, which is followed, or the one pool given with its `key`. Raises BadPoolsFile."""
    pools = ModelPools(limits=limits, keep_alive_seconds=keep_alive_seconds)
    try:
        if isinstance(source, Path):
            file, keys = read(source)
            seen = _seen(source, file.pools)
            await pools.apply(file, keys)
            pools.follow(source, seen)
        else:
            await pools.apply(PoolsFile(pools=(source,)), {source.name: key})
        yield pools
    finally:
        await pools.close()


def read(path: Path) -> tuple[PoolsFile, dict[str, str]]:
    """The file and the keys that it names. Raises BadPoolsFile."""
    file = load_file(path)
    return file, {pool.name: key_of(pool) for pool in file.pools}


def _seen(path: Path, pools: Iterable[PoolConfiguration]) -> list[str]:
    """Changes with the file and with the keys; empty while one cannot be read."""
    keys = [pool.api_key_file for pool in pools]
    try:
        return [fingerprint(one) for one in (path, *keys) if one is not None]
    except OSError:
        return []
