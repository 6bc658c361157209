"""Both stores of the cache, and a book-keeper who remembers everything, agree on whatever happens in whatever order."""

import random
import uuid

import pytest

from services.tool_cache.generations import changes, dependencies
from services.tool_cache.keys import call_key
from services.tool_cache.memory_store import MemoryStore
from services.tool_cache.store import Lease, Outcome, Result
from services.tool_cache.valkey_store import ValkeyStore

TOOLS = "sql_query", "vector_search"
SOURCES = (
    "table:main/public.a",
    "table:main/public.b",
    "table:other/public.a",
    "collection:x",
    "collection:y",
    "collection:*",
    "source:main",
    "*",
)


class BookKeeper:
    """Knows every invalidation in order, and so whether an entry may be shown."""

    def __init__(self):
        self._changes = []
        self.entries = {}

    def now(self):
        return len(self._changes)

    def invalidate(self, tool, sources):
        self._changes.append(set(changes(tool, sources)))

    def outdated(self, key, sources, since):
        return any(changed & set(dependencies(key.tool, sources)) for changed in self._changes[since:])

    def value(self, key):
        value, sources, since = self.entries.get(key.digest, (None, (), 0))
        return None if value is None or self.outdated(key, sources, since) else value


@pytest.mark.parametrize("seed", range(8))
async def test_no_entry_is_shown_after_what_it_was_made_from_changed(valkey_url, seed):
    dice = random.Random(seed)
    tenant = f"t{uuid.uuid4().hex[:8]}"
    keys = [call_key(tenant, tool, "1", f'{{"n":{n}}}') for tool in TOOLS for n in range(3)]
    valkey, memory, book = ValkeyStore(valkey_url, timeout_seconds=5), MemoryStore(), BookKeeper()
    shown = refused = 0
    seen = {}  # what each slow tool saw when it began
    for step in range(250):
        key = dice.choice(keys)
        match dice.choices(("begin", "put", "invalidate"), (6, 3, 1))[0]:
            case "begin":
                [one], [other] = await valkey.get([key]), await memory.get([key])
                assert one.value == other.value == book.value(key), step
                assert one.stale == other.stale, step
                shown += one.value is not None
                seen.setdefault(key, (one.snapshot, other.snapshot, book.now()))
            case "put" if key in seen:
                snapshot, in_memory, since = seen.pop(key)
                sources = tuple(dice.sample(SOURCES, dice.randint(0, 2)))
                value = str(step).encode()
                [one] = await valkey.put([Result(key, value, 60_000, sources, snapshot)])
                [other] = await memory.put([Result(key, value, 60_000, sources, in_memory)])
                outdated = book.outdated(key, sources, since)
                assert one is other is (Outcome.OUTDATED if outdated else Outcome.STORED), step
                refused += outdated
                if not outdated:
                    book.entries[key.digest] = value, sources, since
            case "invalidate":
                tool, sources = dice.choice(("", *TOOLS)), dice.sample(SOURCES, dice.randint(0, 2))
                for store in (valkey, memory):
                    await store.invalidate(tenant, tool, sources)
                book.invalidate(tool, sources)
    assert shown > 5
    assert refused > 2
    await valkey.close()


@pytest.mark.parametrize("seed", range(4))
async def test_a_lease_is_never_held_twice(valkey_url, seed):
    dice = random.Random(seed)
    keys = [call_key(f"t{uuid.uuid4().hex[:8]}", "sql_query", "1", "{}")]
    for store in (ValkeyStore(valkey_url, timeout_seconds=5), MemoryStore()):
        held = ""
        for _ in range(80):
            match dice.choice(("take", "release", "put", "forged")):
                case "take":
                    [found] = await store.get(keys, lease_ms=60_000)
                    assert bool(found.token) == (not held and found.value is None)
                    held = held or found.token
                case "release":
                    await store.release([Lease(keys[0], held)])
                    held = ""
                case "put":
                    await store.put([Result(keys[0], b"1", 0, token=held)])
                    held = ""
                case "forged":
                    await store.release([Lease(keys[0], held[:-1] + "x" if held else "x")])
        await store.close()
