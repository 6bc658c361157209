"""The cache's lookup of near-equal questions beside GPTCache, among 10,000, without an embedding model on either side.

Ours is the service's logic with its Valkey, in process as GPTCache is with SQLite and FAISS: no gRPC on either side.
RedisVL takes part where REDIS_WITH_SEARCH names a server that has FT.SEARCH: Valkey without its search module has not.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from loadtests.measuring import NotMeasured
from loadtests.peers import environments, questions
from loadtests.peers.worker import Worker, worker
from loadtests.processes import process
from loadtests.side_by_side import Run, Took, figures_beside, take_turns
from local import ports, valkey
from services.tool_cache.keys import CallKey, call_key
from services.tool_cache.semantic.layer import SemanticLayer, TextVector
from services.tool_cache.semantic.valkey_index import ValkeyIndex
from services.tool_cache.semantic_lookup import SemanticLookup, TextCall
from services.tool_cache.store import Result
from services.tool_cache.valkey_store import ValkeyStore

_OURS, _VALUE, _TTL_MS, _BATCH, _SIMILAR = "sabueso", b'{"passages": []}', 600_000, 100, 0.9
_ROUNDS, _SECONDS = 200, 8


class GivenVectors:
    """An embedder that knows its answers."""

    def __init__(self) -> None:
        self._known: dict[str, TextVector] = {}

    def prepare(self, text: str) -> None:
        """What the model would have computed."""
        if text not in self._known:
            self._known[text] = TextVector(questions.vector(text).tolist(), False)

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """See Embedder."""
        for text in texts:
            self.prepare(text)
        return [self._known[text] for text in texts]

    async def close(self) -> None:
        """See Embedder."""


class _Ours:
    """Store, index and gate of the service."""

    def __init__(self, store: ValkeyStore, layer: SemanticLayer, vectors: GivenVectors) -> None:
        self._store, self._layer, self._vectors = store, layer, vectors
        self._lookup = SemanticLookup(store, layer)

    async def fill(self) -> None:
        """Stores all questions."""
        for start in range(0, questions.COUNT, _BATCH):
            calls = [_call(questions.asked(number)) for number in range(start, start + _BATCH)]
            await self._store.put([Result(call.key, _VALUE, _TTL_MS) for call in calls])
            self._lookup.remember([(call, _TTL_MS) for call in calls])
            await self._layer.drain()
        for number in range(questions.COUNT):
            self._vectors.prepare(questions.asked(number))

    async def look(self, text: str) -> bool:
        """As the service looks: the equal call first, then near-equal ones."""
        call = _call(text)
        [equal] = await self._store.get([call.key])
        if equal.value is not None:
            return True
        [alike] = await self._lookup.find([call])
        return alike is not None


async def semantic_cache() -> list[dict[str, Any]]:
    """A near-equal question, which hits, and one that nobody asked, which misses."""
    async with _filled() as (ours, vectors), _peers() as peers:
        found: list[dict[str, Any]] = []
        for name, question, hit in (("near", questions.near, True), ("unknown", questions.unknown, False)):
            runs: dict[str, Run] = {_OURS: _mine(ours, vectors, question, hit)}
            runs |= {peer: _theirs(process, question, hit) for peer, process in peers.items()}
            times = await take_turns(runs, rounds=_ROUNDS, seconds=_SECONDS)
            found += [one.fields() for one in figures_beside(f"semantic_cache_{name}", times, _OURS)]
    if not found:
        raise NotMeasured("no peer could be started; their errors stand above")
    return found


def _call(text: str) -> TextCall:
    key: CallKey = call_key("bench", "vector_search", "1", '{"query": ' + f'"{text}"' + "}")
    return TextCall(key, "query", text, _SIMILAR)


@asynccontextmanager
async def _filled() -> AsyncGenerator[tuple[_Ours, GivenVectors]]:
    with tempfile.TemporaryDirectory() as folder:
        [port] = ports.pick(1, ports.random_start())
        cores = os.sched_getaffinity(0)
        with process("valkey", valkey.command(Path(folder), port), cores, port):
            url, vectors = f"redis://127.0.0.1:{port}", GivenVectors()
            store = ValkeyStore(url, timeout_seconds=5)
            layer = SemanticLayer(ValkeyIndex(url, timeout_seconds=5), vectors, timeout_seconds=5)
            await store.open()
            await layer.open()
            try:
                ours = _Ours(store, layer, vectors)
                await ours.fill()
                yield ours, vectors
            finally:
                await layer.close()
                await store.close()


@asynccontextmanager
async def _peers() -> AsyncGenerator[dict[str, Worker]]:
    """Those that can be had here."""
    redis = os.environ.get("REDIS_WITH_SEARCH", "")
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        wanted = {"GPTCache": ("gptcache_lookup", folder)} | ({"RedisVL": ("redisvl_lookup", redis)} if redis else {})
        found: dict[str, Worker] = {}
        for name, (module, argument) in wanted.items():
            try:
                one = worker(environments.python_of("cache"), f"loadtests.peers.{module}", argument)
                found[name] = await stack.enter_async_context(one)
            except (NotMeasured, OSError) as error:
                print(f"{name} is left out: {str(error) or type(error).__name__}", file=sys.stderr)
        yield found


def _mine(ours: _Ours, vectors: GivenVectors, question: Any, hit: bool) -> Run:
    numbers = itertools.count(0, 7)

    async def run() -> None:
        text = question(next(numbers) % questions.COUNT)
        vectors.prepare(text)
        if await ours.look(text) != hit:
            raise NotMeasured(f"`{text}` was {'not found' if hit else 'found'}")

    return run


def _theirs(peer: Worker, question: Any, hit: bool) -> Run:
    """GPTCache has no gate, and answers the nearest question, be it near or not: whether it hit is not asked."""
    numbers = itertools.count(0, 7)

    async def run() -> Took:
        text = question(next(numbers) % questions.COUNT)
        await peer.do("prepare", text)
        did = await peer.do("look", text)
        if hit and did.value is None:
            raise NotMeasured(f"a peer did not find `{text}`")
        return did.took

    return run
