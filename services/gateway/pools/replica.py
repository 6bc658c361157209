"""One model server as the gateway knows it: how busy, how well, and what it serves."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any, cast

from services.gateway.pools import metrics
from services.gateway.pools.capacity import Capacity
from services.gateway.pools.configuration import PoolConfiguration
from services.gateway.pools.connection import ConnectionLost
from services.gateway.pools.load import Load, load_of
from services.gateway.pools.origin import CannotConnect, Origin, TooLarge
from services.gateway.pools.outliers import Outlier

log = logging.getLogger(__name__)

_FAILURES = (CannotConnect, ConnectionLost, TooLarge, TimeoutError)
# What a server said of its load is believed for so many intervals; one that says nothing is asked seldom.
_STALE_INTERVALS, _UNKNOWN_SECONDS = 5, 30.0


class Replica:
    """State of one server. Everything happens in the event loop's thread."""

    def __init__(self, configuration: PoolConfiguration, url: str, weight: float, key: str, server_name: str) -> None:
        self.url = url
        self.name = url.partition("://")[2].removesuffix("/v1")
        self.in_flight = 0
        self.load: Load | None = None
        self.models: frozenset[str] | None = None
        self.names: tuple[str, ...] = ()
        self.down = False
        self.configuration = configuration
        self.weight = weight
        self.key = key
        self._origin = Origin(
            url, connect_seconds=configuration.timeouts.connect_seconds, key=key, server_name=server_name
        )
        health = configuration.health
        self.outlier = Outlier(health.failures, health.ejection_seconds)
        self.capacity = Capacity(configuration.max_in_flight, configuration.shedding)
        # Whether enough others are left; the pool knows.
        self.may_be_ejected: Callable[[], bool] = lambda: False
        self._in_flight_then = 0
        self._load_at = self._models_at = -1e9
        self._load_unknown_until = self._probed_at = -1e9
        self._failed_probes = 0
        self._has_health_page = True
        self._asking = asyncio.Lock()
        labels = (configuration.name, self.name)
        self._in_flight = metrics.IN_FLIGHT.labels(*labels)
        self._capacity = metrics.CAPACITY.labels(*labels)
        self._healthy = metrics.HEALTHY.labels(*labels)
        self._load_age = metrics.LOAD_AGE_SECONDS.labels(*labels)
        self._ejections = metrics.EJECTIONS.labels(*labels)
        self._healthy.set(1)

    @property
    def origin(self) -> Origin:
        """Its connections."""
        return self._origin

    def configure(self, configuration: PoolConfiguration, weight: float) -> None:
        """Takes on what changed in the pools' file; what is known of the server stays."""
        self.configuration, self.weight = configuration, weight
        self._origin.connect_seconds = configuration.timeouts.connect_seconds
        health = configuration.health
        self.outlier.failures, self.outlier.ejection_seconds = health.failures, health.ejection_seconds
        self.capacity.configure(configuration.max_in_flight, configuration.shedding)

    def usable(self, now: float) -> bool:
        """Whether requests should go to it."""
        return not self.down and not self.outlier.ejected(now)

    @property
    def has_room(self) -> bool:
        """Whether it may get one more now."""
        return self.in_flight < self.capacity.now

    def score(self, now: float) -> float:
        """How busy it is for its weight; less is better.

        What the server said, corrected by what we have sent and got back since: else all go to the one that was idle
        when it was last asked.
        """
        busy = float(self.in_flight)
        load = self.fresh_load(now)
        if load is not None:
            told = load.running + load.waiting + self.in_flight - self._in_flight_then
            busy = max(busy, told) + load.kv_cache
        return (busy + 1) / self.weight

    def fresh_load(self, now: float) -> Load | None:
        """What it said of its load, while that can be believed."""
        most = max(5.0, _STALE_INTERVALS * self.configuration.health.load_interval_seconds)
        return self.load if now - self._load_at <= most else None

    def scraped(self, load: Load, now: float, in_flight: int) -> None:
        """It told its load; `in_flight`: how many of ours were there when it was asked."""
        self.load, self._load_at, self._in_flight_then = load, now, in_flight

    def begin(self, now: float) -> None:
        """A request goes to it."""
        self.in_flight += 1
        self._in_flight.set(self.in_flight)
        self.outlier.chosen(now)

    def fail(self, now: float) -> bool:
        """A request to it failed. True when that ejects it."""
        ejected = self.outlier.failed(now, may_eject=self.may_be_ejected())
        if ejected:
            self._ejections.inc()
            self._healthy.set(0)
        return ejected

    def end(self) -> None:
        """It has one request less."""
        self.in_flight -= 1
        self._in_flight.set(self.in_flight)

    async def look(self) -> bool:
        """One round of watching: its load, and when it is time its health and its models. True: it may get more."""
        health = self.configuration.health
        now = time.monotonic()
        was_usable = self.usable(now)
        if now >= self._load_unknown_until:
            await self._scrape()
        if now - self._probed_at >= health.interval_seconds:
            self._probed_at = now
            await self._probe()
            if not self.down and not self.configuration.models:
                await self.list_models(health.interval_seconds)
        now = time.monotonic()
        grown = self.capacity.adapt(self.fresh_load(now), self.in_flight)
        self._capacity.set(self.capacity.now)
        self._healthy.set(self.usable(now))
        if self.load is not None:
            self._load_age.set(now - self._load_at)
        return grown or (self.usable(now) and not was_usable)

    async def list_models(self, most_age_seconds: float) -> None:
        """Asks which models it serves, unless that is known well enough. A silent server changes nothing."""
        async with self._asking:
            if time.monotonic() - self._models_at < most_age_seconds:
                return
            self._models_at = time.monotonic()
            try:
                status, body = await self._get("/v1/models")
                if status >= 400:
                    raise ValueError(status)
                listed: Any = json.loads(body)["data"]
                self.names = tuple(str(cast(dict[str, Any], model)["id"]) for model in listed)
                self.models = frozenset(self.names)
            except (*_FAILURES, ValueError, KeyError, TypeError) as error:
                reason = {"reason": type(error).__name__, "pool": self.configuration.name}
                log.warning("a model server does not list its models", extra=reason)

    def close(self) -> None:
        """Nothing new goes to it; what runs ends as it would."""
        self._origin.close()
        for gauge in (metrics.IN_FLIGHT, metrics.CAPACITY, metrics.HEALTHY, metrics.LOAD_AGE_SECONDS):
            gauge.remove(self.configuration.name, self.name)

    async def _scrape(self) -> None:
        in_flight = self.in_flight
        try:
            status, body = await self._origin.get("/metrics", self.configuration.health.timeout_seconds)
        except _FAILURES:
            return
        load = load_of(body) if status == 200 else None
        if load is None:
            self._load_unknown_until = time.monotonic() + _UNKNOWN_SECONDS
            return
        self.scraped(load, time.monotonic(), in_flight)

    async def _probe(self) -> None:
        well = False
        try:
            path = self.configuration.health.path if self._has_health_page else "/v1/models"
            status, _ = await self._get(path)
            if status in (404, 405) and self._has_health_page:
                self._has_health_page = False
                status, _ = await self._get("/v1/models")
            well = status < 500
        except _FAILURES:
            pass
        self._failed_probes = 0 if well else self._failed_probes + 1
        down = self._failed_probes >= self.configuration.health.failures
        if down != self.down:
            self.down = down
            facts = {"pool": self.configuration.name, "healthy": not down}
            log.warning("a model server's health changed", extra=facts)

    async def _get(self, path: str) -> tuple[int, bytes]:
        seconds = self.configuration.health.timeout_seconds
        return await self._origin.get(path, seconds, below_prefix=path.startswith("/v1/"))
