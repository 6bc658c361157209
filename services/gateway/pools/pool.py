"""Replicas that serve the same models, with the queue before them and the tasks that watch them."""

import asyncio
import logging
import random
import time
from urllib.parse import urlsplit

from pydantic import ValidationError

from services.gateway.pools.configuration import PoolConfiguration
from services.gateway.pools.discovery import Names
from services.gateway.pools.replica import Replica
from services.gateway.pools.retrying import RetryBudget
from services.gateway.queueing import FairQueue, QueueLimits
from services.runtime import tasks
from services.runtime.settings import WrongSetting

log = logging.getLogger(__name__)


class Pool:
    """One pool of the file, through all its changes."""

    def __init__(self, configuration: PoolConfiguration, key: str, names: Names, limits: QueueLimits) -> None:
        self.configuration = configuration
        self.replicas: list[Replica] = []
        self.queue = FairQueue(configuration.name, self.capacity, limits)
        self.budget = RetryBudget(configuration.retries.budget)
        self._key = key
        self._names = names
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._finding: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Finds its replicas, and begins to watch them."""
        await self.configure(self.configuration, self._key)

    async def configure(self, configuration: PoolConfiguration, key: str) -> None:
        """Takes on a change of the file. What is known of the replicas that stay is kept."""
        changed_key = key != self._key
        self.configuration, self._key = configuration, key
        self.budget.part = configuration.retries.budget
        if self._finding is not None:
            self._finding.cancel()
            self._finding = None
        if changed_key:
            await self._set({})
        if configuration.dns:
            await self._find()
            self._finding = asyncio.create_task(self._keep_finding())
        else:
            await self._set({replica.url: replica.weight for replica in configuration.replicas})

    async def close(self) -> None:
        """Watches no more, and closes what is idle."""
        if self._finding is not None:
            self._finding.cancel()
        self.queue.close()
        await self._set({})

    def capacity(self) -> int:
        """How many requests its replicas may get at once now. All count where none is well: it may be the probes."""
        now = time.monotonic()
        usable = [replica.capacity.now for replica in self.replicas if replica.usable(now)]
        return sum(usable) if usable else sum(replica.capacity.now for replica in self.replicas)

    def serving(self, model: str) -> list[Replica]:
        """Replicas that have the model, or of which nobody knows yet what they have."""
        if self.configuration.models:
            return self.replicas if model in self.configuration.models else []
        found = [replica for replica in self.replicas if replica.models is not None and model in replica.models]
        return found or [replica for replica in self.replicas if replica.models is None]

    def models(self) -> list[str] | None:
        """Names that it serves, in the order in which its servers list them; None while that is unknown."""
        if self.configuration.models:
            return list(self.configuration.models)
        known = [replica.names for replica in self.replicas if replica.models is not None]
        return list(dict.fromkeys(name for names in known for name in names)) if known else None

    async def list_models(self, most_age_seconds: float) -> None:
        """Asks its replicas what they serve, those of which it is not known that freshly."""
        if not self.configuration.models:
            await asyncio.gather(*(replica.list_models(most_age_seconds) for replica in list(self.replicas)))

    def state(self) -> str:
        """For readiness: `ok`, or how many replicas are not well."""
        now = time.monotonic()
        well = sum(replica.usable(now) for replica in self.replicas)
        return "ok" if self.replicas and well == len(self.replicas) else f"{well} of {len(self.replicas)} replicas"

    async def _set(self, weights: dict[str, float]) -> None:
        gone = [replica for replica in self.replicas if replica.url not in weights]
        kept = {replica.url: replica for replica in self.replicas if replica.url in weights}
        await asyncio.gather(*(self._forget(replica) for replica in gone))
        replicas: list[Replica] = []
        for url, weight in weights.items():
            replica = kept.get(url)
            if replica is None:
                replica = self._new(url, weight)
                self._watching[url] = asyncio.create_task(self._watch(replica))
            else:
                replica.configure(self.configuration, weight)
            replicas.append(replica)
        self.replicas = replicas
        self.queue.wake()

    def _new(self, url: str, weight: float) -> Replica:
        server_name = self.configuration.dns.rpartition(":")[0]
        replica = Replica(self.configuration, url, weight, self._key, server_name)

        def may_be_ejected() -> bool:
            now = time.monotonic()
            out = sum(one.outlier.ejected(now) for one in self.replicas if one is not replica)
            return out + 1 <= len(self.replicas) // 2

        replica.may_be_ejected = may_be_ejected
        return replica

    async def _forget(self, replica: Replica) -> None:
        await tasks.end(self._watching.pop(replica.url, None))
        replica.close()

    async def _watch(self, replica: Replica) -> None:
        while True:
            try:
                if await replica.look():
                    self.queue.wake()
            except Exception:
                log.exception("watching a model server failed", extra={"pool": self.configuration.name})
            interval = self.configuration.health.load_interval_seconds
            # Not all gateways at the same moment.
            await asyncio.sleep(interval * random.uniform(0.8, 1.2))

    async def _find(self) -> None:
        name, _, port = self.configuration.dns.rpartition(":")
        addresses = await self._names.addresses(name)
        if not addresses:
            log.warning("the name of a model pool has no address", extra={"pool": self.configuration.name})
            return  # what was known stays: a lost DNS server takes no model away
        urls = [self.configuration.dns_url.format(_authority(address, port)) for address in addresses]
        await self._set(dict.fromkeys(urls, 1.0))

    async def _keep_finding(self) -> None:
        while True:
            await asyncio.sleep(self.configuration.dns_interval_seconds)
            try:
                await self._find()
            except Exception:
                log.exception("finding model servers failed", extra={"pool": self.configuration.name})


def pool_at(url: str, *, every_address: bool = False, **options: object) -> PoolConfiguration:
    """The pool of one URL: a server, or with `every_address` each address of its name. `options`: further fields.

    Raises WrongSetting.
    """
    given: dict[str, object] = {"name": "default", **options}
    try:
        only = PoolConfiguration.model_validate({**given, "replicas": [{"url": url}]})
        if not every_address:
            return only
        parts = urlsplit(only.replicas[0].url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        pattern = f"{parts.scheme}://{{}}{parts.path}"
        return PoolConfiguration.model_validate({**given, "dns": f"{parts.hostname}:{port}", "dns_url": pattern})
    except ValidationError as error:
        raise WrongSetting(error.errors()[0]["msg"], "SABUESO_MODEL_URL") from None


def _authority(address: str, port: str) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
