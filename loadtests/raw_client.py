"""HTTP requests at the least cost, so that a measurement shows the server: one prepared request, again and again."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from loadtests.measuring import NotMeasured

# Node closes a connection that was idle for 5 s, perhaps at the moment of its use.
_IDLE_SECONDS = 3.0


@dataclass(frozen=True)
class Target:
    """Where a request goes: the whole request is made once. `process_id` is of the server, where it is known."""

    name: str
    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    process_id: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 80

    def request(self) -> bytes:
        """As it goes over the wire."""
        parts = urlsplit(self.url)
        headers = {"host": parts.netloc, "content-type": "application/json", "content-length": str(len(self.body))}
        lines = [f"POST {parts.path} HTTP/1.1", *(f"{k}: {v}" for k, v in {**headers, **self.headers}.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


class Connection:
    """A connection that is kept alive."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._request = target.request()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used_at = 0.0

    async def ask(self) -> bytes:
        """Sends the request, reads the answer to its end, returns its body. Raises NotMeasured unless it is a 200."""
        if time.monotonic() - self._used_at > _IDLE_SECONDS:
            self.close()
            self._streams = None
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._target.place, limit=2**20)
        reader, writer = self._streams
        writer.write(self._request)
        head = await reader.readuntil(b"\r\n\r\n")
        body = await _body(reader, head.lower())
        self._used_at = time.monotonic()
        if not head.startswith(b"HTTP/1.1 200"):
            raise NotMeasured(f"{self._target.name}: {head[:40]!r} {body[:200]!r}")
        return body

    def close(self) -> None:
        """Closes it."""
        if self._streams is not None:
            self._streams[1].close()


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    at = head.find(b"content-length:")
    if at >= 0:
        return await reader.readexactly(int(head[at + 15 :].split(b"\r\n", 1)[0]))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return body


async def at_a_rate(targets: Sequence[Target], per_second: float, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of answers by target, each asked `per_second` times a second at planned times.

    A time counts from the plan, so that a stall of the server shows in all the requests that it held up. The targets
    take turns within each beat: all meet the same noise.
    """
    times: dict[str, list[float]] = {target.name: [] for target in targets}
    free: dict[str, list[Connection]] = {target.name: [] for target in targets}

    async def one(target: Target, planned: float) -> None:
        connection = free[target.name].pop() if free[target.name] else Connection(target)
        await connection.ask()
        times[target.name].append((time.perf_counter() - planned) * 1000)
        free[target.name].append(connection)

    began = time.perf_counter()
    beat = 1 / per_second / len(targets)
    async with asyncio.TaskGroup() as group:
        for number in range(round(per_second * seconds) * len(targets)):
            planned = began + number * beat
            await asyncio.sleep(max(0.0, planned - time.perf_counter()))
            round_, place = divmod(number, len(targets))
            group.create_task(one(targets[(place + round_) % len(targets)], planned))
    for connection in (one for connections in free.values() for one in connections):
        connection.close()
    return times


async def throughput(target: Target, connections: int, seconds: float) -> float:
    """Answers a second with as many requests under way as there are connections."""
    end = time.perf_counter() + seconds
    answered = 0

    async def ask_on() -> None:
        nonlocal answered
        connection = Connection(target)
        while time.perf_counter() < end:
            await connection.ask()
            answered += 1
        connection.close()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(ask_on())
    return answered / (time.perf_counter() - began)
