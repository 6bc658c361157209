"""Steady load of checked requests of two tenants, by the clock and whatever becomes of those before."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

# What a call may take that has no deadline of its own; then the client calls it hung.
PATIENCE_SECONDS = 40.0
# Words of reasons that a wait of less than a second or two has too, when the machine is busy.
_LATE = ("time", "too long", "could not be checked", "tool_cache does not answer")


@dataclass
class Sample:
    """One request. Times are of `time.monotonic`, in seconds.

    `status` is 0 when nothing came back. `code` is that of the typed error, of a stream too. `untrue` says what an
    answer lacks that came back whole. `degraded` names the services that it says it went without.
    """

    kind: str
    tenant: str
    sent: float
    ended: float = 0.0
    status: int = 0
    code: str = ""
    problem: str = ""
    untrue: str = ""
    finish: str = ""
    degraded: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    tokens: int = 0
    text: str = ""

    @property
    def failed(self) -> bool:
        """Whether the caller got no whole answer."""
        return bool(self.problem)

    @property
    def was_cut(self) -> bool:
        """Whether it had begun, and did not come to an end."""
        return self.status == 200 and self.failed

    @property
    def is_late(self) -> bool:
        """Whether it went without something, or ended early, for want of time; a busy machine does so too."""
        late = bool(self.degraded) and all(any(word in reason for word in _LATE) for reason in self.reasons)
        return late or self.code == "deadline_exceeded" or (self.finish == "partial" and not self.degraded)

    @property
    def is_whole(self) -> bool:
        """Whether it is as it would be on a day without faults."""
        return not (self.problem or self.untrue or self.degraded or self.finish not in ("", "answered"))

    def note_error(self, said: Mapping[str, Any]) -> None:
        """What OpenAI's error object says."""
        error = said.get("error") or {}
        self.code = str(error.get("code") or "")
        self.problem = str(error.get("message") or "an error without words")

    def __str__(self) -> str:
        said = self.problem or self.untrue or "fine"
        marks = "".join(f" {name}={value}" for name, value in self._marks().items() if value)
        return f"{self.kind} of {self.tenant} after {self.ended - self.sent:.1f} s: {said}{marks}"

    def _marks(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "code": self.code,
            "finish": self.finish,
            "degraded": "; ".join(map(": ".join, zip(self.degraded, self.reasons, strict=True))),
        }


@dataclass(frozen=True)
class Kind:
    """A kind of request. `needs`: what cannot be lost without the answer saying so, or failing."""

    name: str
    tenants: Sequence[str]
    per_second: float
    needs: frozenset[str]
    ask: Callable[["Offering", Sample], Any]


@dataclass
class Ledger:
    """What the stack has acknowledged: document ids with the word that finds them, by tenant."""

    documents: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


class Offering:
    """Requests go on until it is told to stop; those under way are waited for."""

    def __init__(self, url: str, keys: Mapping[str, str], seed: int) -> None:
        # A connection for each request, as behind an ingress that opens its own.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self.http = httpx2.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS, limits=limits, trust_env=False)
        self.samples: list[Sample] = []
        self.ledger = Ledger()
        self._keys = keys
        self._dice = random.Random(seed)
        self.numbers = itertools.count(seed * 100_000)
        self._running: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    def headers(self, tenant: str) -> dict[str, str]:
        """Of a caller of this tenant."""
        return {"authorization": f"Bearer {self._keys[tenant]}"}

    async def run(self, kinds: Sequence[Kind], pace: float) -> None:
        """Each kind at `pace` times its own rate, tenants in turn."""
        await asyncio.gather(*(self._arrivals(kind, pace * kind.per_second) for kind in kinds))
        if self._running:
            await asyncio.wait(self._running, timeout=2 * PATIENCE_SECONDS)

    def stop(self) -> None:
        """No further request begins."""
        self._stopped.set()

    async def _arrivals(self, kind: Kind, per_second: float) -> None:
        tenants = itertools.cycle(kind.tenants)
        due = time.monotonic() + self._dice.uniform(0, 1 / per_second)
        while not self._stopped.is_set():
            try:
                async with asyncio.timeout(max(0.001, due - time.monotonic())):
                    await self._stopped.wait()
                return
            except TimeoutError:
                due += 1 / per_second
            task = asyncio.create_task(self.one(kind, next(tenants)))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def one(self, kind: Kind, tenant: str) -> Sample:
        """Asks once and notes what came of it."""
        sample = Sample(kind.name, tenant, time.monotonic())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await kind.ask(self, sample)
        except TimeoutError:
            sample.problem = f"hung: nothing after {PATIENCE_SECONDS:.0f} s"
        except httpx2.HTTPError as error:
            sample.problem = f"no answer: {type(error).__name__}"
        sample.ended = time.monotonic()
        self.samples.append(sample)
        return sample

    async def call(self, sample: Sample, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON that comes back; an error is noted in the sample."""
        answer = await self.http.post(path, json=body, headers=self.headers(sample.tenant))
        sample.status = answer.status_code
        sample.text = answer.text
        try:
            said: dict[str, Any] = answer.json()
        except ValueError:
            sample.problem = f"a body that is no JSON, status {answer.status_code}"
            return {}
        if answer.status_code >= 400:
            sample.note_error(said)
            return {}
        return said


@asynccontextmanager
async def offered(
    url: str, keys: Mapping[str, str], kinds: Sequence[Kind], pace: float, seed: int
) -> AsyncIterator[Offering]:
    """The load, from the beginning of the block to its end. Those under way are waited for."""
    offering = Offering(url, keys, seed)
    running = asyncio.create_task(offering.run(kinds, pace))
    try:
        yield offering
    finally:
        offering.stop()
        await running
        await offering.http.aclose()
