"""What runs in Ray's workers: the two stages of a bulk run, and the encoders that it may bring.

Ray gives a stage some files or documents at a time and takes back as many; how many of them are on their way at once
is Ray's to say (run.py). A failure of one is its own: the others go on.
"""

import asyncio
import pickle
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from services.ingestion.bulk.config import Settings
from services.ingestion.bulk.connections import Addresses, Connections, scratch
from services.ingestion.bulk.corpus import Outcome, Source, Target, failed
from services.ingestion.bulk.encoders import Encoder
from services.ingestion.bulk.optional import module
from services.ingestion.bulk.patience import patiently, reason_of
from services.ingestion.bulk.preparing import Prepared
from services.ingestion.parsing import Parser
from services.ingestion.worker import Retry

Item = TypeVar("Item")
Result = TypeVar("Result")

SOURCE, PREPARED, OUTCOME = "source", "prepared", "outcome"


class WrongWorker(Exception):
    """A worker's environment lacks a setting."""


def worker_settings() -> Settings:
    """Raises WrongWorker."""
    try:
        return Settings.read()
    except SystemExit:
        raise WrongWorker(
            "The settings in the environment of Ray's workers are wrong; the log of the worker names them."
        ) from None


def rows_of(sources: Sequence[Source]) -> Any:
    """A block for the first stage."""
    return _table({SOURCE: [pickle.dumps(one) for one in sources]})


def outcomes_of(table: Any) -> list[Outcome]:
    """What the last stage gave."""
    return [Outcome.from_json(line.decode()) for line in table.column(OUTCOME).to_pylist()]


class _Stage:
    """An event loop with its connections, for calls that come one after the other."""

    def __init__(self, target: Target, encoders: Sequence[Any], concurrency: int, retry: Retry) -> None:
        self._settings = worker_settings()
        self._concurrency = concurrency
        self._retry = retry
        self._runner = asyncio.Runner()
        self._connections = self._runner.run(self._connected(target, addresses_of(encoders)))

    async def _connected(self, target: Target, addresses: Addresses | None) -> Connections:
        return Connections(self._settings, target, addresses)

    def _all(self, items: Sequence[Item], call: Callable[[Item], Awaitable[Result]]) -> list[Result]:
        """In order, a few at a time."""

        async def run() -> list[Result]:
            free = asyncio.Semaphore(self._concurrency)

            async def one(item: Item) -> Result:
                async with free:
                    return await call(item)

            return list(await asyncio.gather(*map(one, items)))

        return self._runner.run(run())

    async def _seen_through(
        self, source: Source, sha256: str, attempt: Callable[[], Awaitable[Result]]
    ) -> Result | Outcome:
        try:
            return await patiently(attempt, self._retry, self._connections.renew)
        except Exception as error:
            return failed(source, reason_of(error), sha256)


class Prepare(_Stage):
    """Read, parse, cut, screen: a file becomes passages."""

    def __init__(self, target: Target, encoders: Sequence[Any], concurrency: int, retry: Retry) -> None:
        super().__init__(target, encoders, concurrency, retry)
        self._folder = scratch()
        parser = Parser(self._settings.parse_memory_bytes, self._settings.parse_timeout_seconds)
        self._preparation = self._connections.preparation(Path(self._folder.name), parser)

    def __call__(self, table: Any) -> Any:
        """Sources in; prepared documents, and the outcomes of files that need no more, out."""
        sources: list[Source] = [pickle.loads(one) for one in table.column(SOURCE).to_pylist()]
        done = self._all(sources, self._one)
        return _table(
            {
                PREPARED: [pickle.dumps(one) if isinstance(one, Prepared) else None for one in done],
                OUTCOME: [one.to_json().encode() if isinstance(one, Outcome) else None for one in done],
            }
        )

    async def _one(self, source: Source) -> Prepared | Outcome:
        return await self._seen_through(source, "", lambda: self._preparation.prepare(source))


class Store(_Stage):
    """Embed and upsert: passages become a document that is found."""

    def __init__(self, target: Target, encoders: Sequence[Any], concurrency: int, retry: Retry) -> None:
        super().__init__(target, encoders, concurrency, retry)
        self._storing = self._connections.storing()

    def __call__(self, table: Any) -> Any:
        """Prepared documents in, outcomes out."""
        pairs = list(zip(table.column(PREPARED).to_pylist(), table.column(OUTCOME).to_pylist(), strict=True))
        return _table({OUTCOME: self._all(pairs, self._one)})

    async def _one(self, pair: tuple[bytes | None, bytes]) -> bytes:
        pickled, outcome = pair
        if pickled is None:
            return outcome
        prepared: Prepared = pickle.loads(pickled)
        done = await self._seen_through(prepared.source, prepared.sha256, lambda: self._storing.store(prepared))
        return done.to_json().encode()


class HeldEncoder:
    """A Ray actor that holds an encoder, and starts another when it ended."""

    def __init__(self) -> None:
        self._host: str = module("ray").util.get_node_ip_address()
        self._settings = worker_settings()
        self._encoder = Encoder(self._settings, self._host)

    def address(self) -> str:
        """`host:port`."""
        if not self._encoder.is_alive:
            self._encoder = Encoder(self._settings, self._host)
        return self._encoder.address


def addresses_of(encoders: Sequence[Any]) -> Addresses | None:
    """Asks the actors that hold `encoders`; None where there are none."""
    if not encoders:
        return None

    def ask() -> Sequence[str]:
        return module("ray").get([one.address.remote() for one in encoders])

    return ask


def _table(columns: dict[str, Sequence[bytes | None]]) -> Any:
    pyarrow = module("pyarrow")
    # Not the narrow type: a block may hold more than 2 GiB.
    return pyarrow.table({name: pyarrow.array(rows, pyarrow.large_binary()) for name, rows in columns.items()})
