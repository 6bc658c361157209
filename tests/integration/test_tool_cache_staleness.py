"""Whatever happens to Valkey, in whatever order: nobody is shown an old result, or another call's."""

import asyncio
import contextlib
import random
import uuid

import pytest
import redis

from services.runtime.errors import DependencyFailed
from services.tool_cache.generations import changes, dependencies
from services.tool_cache.keys import call_key
from services.tool_cache.store import Lease, Outcome, Result
from services.tool_cache.valkey_store import ValkeyStore
from tests.integration.tool_cache_client import OwnValkey

SOURCES = "table:main/public.a", "table:main/public.b", "table:other/public.a", "collection:x", "collection:*", "*"
TOOLS = "sql_query", "vector_search"
EVENTS = {
    "look": 120, "put": 60, "invalidate": 10, "pass": 4, "lose state": 1, "lose entries": 1, "flush": 1, "crowd": 2,
    "fill": 1, "empty": 6, "freeze": 1, "kill": 1,
}  # fmt: skip
LIFETIME_MS = 150


class World:
    """What is true: every call has one right value at a time, and whatever changes its sources changes it."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        tenants = [f"t{uuid.uuid4().hex[:8]}" for _ in range(2)]
        self.keys = {
            call_key(tenant, tool, "1", f'{{"n":{n}}}', labels): self.dice.sample(SOURCES[:-2], 2)
            for tenant in tenants
            for tool in TOOLS
            for n, labels in ((1, ()), (1, ("hr",)))
        }
        self.rounds = dict.fromkeys(self.keys, 0)

    def value(self, key):
        return f'"{key.digest} {self.rounds[key]}"'.encode()

    def change(self, tenant, tool, sources):
        """Before the invalidation: from now on only what is made anew is right."""
        touched = set(changes(tool, sources))
        for key, own in self.keys.items():
            if key.tenant == tenant and touched & set(dependencies(key.tool, own)):
                self.rounds[key] += 1


async def invalidated(store, tenant, tool, sources):
    """As whoever loads data does it: until it is heard."""
    for _ in range(200):
        try:
            return await store.invalidate(tenant, tool, sources)
        except DependencyFailed:
            await asyncio.sleep(0.02)
    raise AssertionError("an invalidation was never heard")


def happen(event, valkey, world):
    """To Valkey, from outside."""
    client = valkey.client
    match event:
        case "lose state":
            client.delete(f"sabueso:cache:{{{world.dice.choice(list(world.keys)).tenant}}}:g")
        case "lose entries":
            for name in client.keys("sabueso:cache:*:e:*"):
                if world.dice.random() < 0.5:
                    client.delete(name)
        case "flush":
            client.flushall()
        case "crowd":
            # Eviction takes whatever was not used lately: entries, leases, and the state of tenants.
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.config_set("maxmemory", str(client.info("memory")["used_memory"] - 2_000))
            with contextlib.suppress(redis.RedisError):
                client.set(f"other:{world.dice.random()}", "x" * 1_000, px=100)
        case "fill":
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", "1")
        case "empty":
            client.config_set("maxmemory", "0")
        case "kill":
            valkey.kill()
            valkey.start()


async def frozen(valkey):
    valkey.freeze()
    await asyncio.sleep(0.06)
    valkey.thaw()


@pytest.fixture(scope="module")
def own_valkey(tmp_path_factory):
    own = OwnValkey(tmp_path_factory.mktemp("valkey"))
    yield own
    own.close()


class Callers:
    """Who looks up, makes and stores results, through either of two processes."""

    def __init__(self, stores, world):
        self.stores, self.world, self.dice = stores, world, world.dice
        self.making = {}  # what a slow tool found, and the state and the lease of before
        self.shown = self.refused = 0

    async def look(self, store, key):
        [found] = await store.get([key], lease_ms=self.dice.choice((0, 50)))
        if found.value is not None:
            assert found.value == self.world.value(key)
            self.shown += 1
        elif found.token and key in self.making:
            await store.release([Lease(key, found.token)])
        if key not in self.making:
            self.making[key] = found.snapshot, found.token, self.world.value(key)

    async def put(self, store):
        if not self.making:
            return
        key = self.dice.choice(list(self.making))
        snapshot, token, value = self.making.pop(key)
        ttl = self.dice.choice((LIFETIME_MS, 60_000))
        [became] = await store.put([Result(key, value, ttl, tuple(self.world.keys[key]), snapshot, token)])
        assert became is not Outcome.STORED or value == self.world.value(key)
        self.refused += became is Outcome.OUTDATED

    async def invalidate(self, store, tenant):
        tool, sources = self.dice.choice(("", *TOOLS)), self.dice.sample(SOURCES, self.dice.randint(0, 2))
        self.world.change(tenant, tool, sources)
        await invalidated(store, tenant, tool, sources)

    async def step(self, event, valkey):
        store, key = self.dice.choice(self.stores), self.dice.choice(list(self.world.keys))
        match event:
            case "look":
                await self.look(store, key)
            case "put":
                await self.put(store)
            case "invalidate":
                await self.invalidate(store, key.tenant)
            case "pass":
                await asyncio.sleep(0.03)
            case "freeze":
                await asyncio.gather(frozen(valkey), store.get([key]), return_exceptions=True)
            case _:
                happen(event, valkey, self.world)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
async def test_nothing_old_or_foreign_is_ever_shown(own_valkey, seed):
    world = World(seed)
    stores = [ValkeyStore(own_valkey.url, timeout_seconds=0.04, pause_seconds=0.02) for _ in range(2)]
    callers = Callers(stores, world)
    happen("empty", own_valkey, world)
    for _ in range(700):
        with contextlib.suppress(DependencyFailed):
            await callers.step(world.dice.choices(list(EVENTS), list(EVENTS.values()))[0], own_valkey)
    happen("empty", own_valkey, world)
    for store in stores:
        await store.close()
    assert callers.shown > 10
    assert callers.refused > 0
