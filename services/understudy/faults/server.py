"""The server: chooses a script for each request, remembers what came, and takes orders over HTTP."""

import asyncio
import base64
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from services.understudy.faults import answers
from services.understudy.faults.connection import Connection, Request
from services.understudy.faults.playing import Performance
from services.understudy.faults.script import Load, Script, State

_MOST_RECORDS = 10_000
_SCRIPTS = TypeAdapter(list[Script])
_JSON = "application/json"


@dataclass
class Record:
    """One request, and what became of it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    script: Script
    arrived: float
    performance: Performance = field(repr=False)
    # The client left before the answer had ended; seconds after its arrival.
    closed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    closed_after_seconds: float | None = None
    # The answer was written to the end that its script has.
    finished: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def sent_bytes(self) -> int:
        """Bytes of the body that the kernel has taken, without HTTP's own."""
        return self.performance.sent_bytes

    @property
    def sent_events(self) -> int:
        """Events with content that were written."""
        return self.performance.sent_events

    @property
    def asked(self) -> dict[str, Any]:
        """The body, if it is a JSON object."""
        return _object(self.body)

    def told(self) -> dict[str, Any]:
        """For GET /record."""
        return {
            "method": self.method,
            "path": self.path,
            "headers": dict(self.headers),
            "body": base64.b64encode(self.body).decode(),
            "arrived": self.arrived,
            "sent_bytes": self.sent_bytes,
            "sent_events": self.sent_events,
            "finished": self.finished.is_set(),
            "closed_after_seconds": self.closed_after_seconds,
        }


class FaultyServer:
    """An OpenAI-compatible server that does as its scripts say.

    The script of a request: its header `x-fault` (JSON), or its body's `fault`, or the next of the queue, or its
    model's, or `script`. GET /health, /metrics and /v1/models answer from `health_status`, `load` and `models`.
    """

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.by_model: dict[str, Script] = {}
        self.models: tuple[str, ...] = ("mini-1", "big-1")
        self.load: Load | None = None
        self.health_status = 200
        self.keep_alive_seconds = 75.0
        self.go_on = asyncio.Event()
        self.requests: deque[Record] = deque(maxlen=_MOST_RECORDS)
        self.running = 0
        self.port = 0
        self._queue: deque[Script] = deque()
        self._opened: set[Connection] = set()
        self._arrival = asyncio.Condition()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def queue(self, *scripts: Script) -> None:
        """Scripts of the next requests, one each."""
        self._queue.extend(scripts)

    async def arrived(self, count: int) -> Record:
        """Waits until so many requests have come in all, and gives the last of them."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        """Listens. Port 0 is any free one."""
        listener = socket.create_server((host, port), backlog=2048)
        self.port = listener.getsockname()[1]
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._answer, lambda: self.keep_alive_seconds, self._opened), sock=listener
        )

    async def stop(self) -> None:
        """Ends every connection, in the middle of whatever it does."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(connection.gone.wait() for connection in self.reset_all()))

    def reset_all(self) -> list[Connection]:
        """Resets every connection; new ones are taken."""
        connections = list(self._opened)
        for connection in connections:
            connection.reset()
        return connections

    async def _answer(self, request: Request, connection: Connection) -> None:
        path = request.path.partition("?")[0]
        if request.method == "POST" and path not in ("/script", "/state"):
            return await self._perform(request, path, connection)
        status, text, kind = self._order(request, path)
        await Performance(Script(status=status), connection, self.go_on).send(text.encode(), kind)

    async def _perform(self, request: Request, path: str, connection: Connection) -> None:
        asked = _object(request.body)
        try:
            script = self._script_for(request, asked)
        except ValidationError as error:
            refused = Performance(Script(status=400), connection, self.go_on)
            return await refused.send(str(error).encode(), "text/plain; charset=utf-8")
        performance = Performance(script, connection, self.go_on)
        record = Record(request.method, path, request.headers, request.body, script, time.monotonic(), performance)
        self.requests.append(record)
        async with self._arrival:
            self._arrival.notify_all()
        self.running += 1
        try:
            await performance.play(path, asked)
            record.finished.set()
        finally:
            self.running -= 1
            # An answer that hangs on purpose ends only by its client.
            if connection.gone.is_set():
                record.closed_after_seconds = time.monotonic() - record.arrived
                record.closed.set()

    def _script_for(self, request: Request, asked: Mapping[str, Any]) -> Script:
        if "x-fault" in request.headers:
            return Script.model_validate_json(request.headers["x-fault"])
        if "fault" in asked:
            return Script.model_validate(asked["fault"])
        if self._queue:
            return self._queue.popleft()
        return self.by_model.get(str(asked.get("model")), self.script)

    def _order(self, request: Request, path: str) -> tuple[int, str, str]:
        match request.method, path:
            case "GET", "/health":
                return self.health_status, "", "text/plain"
            case "GET", "/metrics":
                load = self.load or Load(running=self.running)
                return 200, answers.metrics(load, self.models[0]), "text/plain; version=0.0.4; charset=utf-8"
            case "GET", "/v1/models":
                return 200, answers.dumps(answers.models(self.models)), _JSON
            case "GET", "/record":
                return 200, answers.dumps([record.told() for record in self.requests]), _JSON
            case "DELETE", "/record":
                self.requests.clear()
                return 200, "{}", _JSON
            case "POST", _:
                return self._instructed(request, path)
            case _:
                return 404, answers.dumps(answers.error_body(404)), _JSON

    def _instructed(self, request: Request, path: str) -> tuple[int, str, str]:
        try:
            if path == "/script":
                self.queue(*_SCRIPTS.validate_json(request.body))
            else:
                self.change(State.model_validate_json(request.body))
        except ValidationError as error:
            return 400, str(error), "text/plain; charset=utf-8"
        return 200, "{}", _JSON

    def change(self, state: State) -> None:
        """Takes over what `state` names."""
        for name in ("script", "by_model", "load", "health_status", "models", "keep_alive_seconds"):
            value = getattr(state, name)
            if value is not None:
                setattr(self, name, value)
        if state.go_on is not None:
            (self.go_on.set if state.go_on else self.go_on.clear)()


@asynccontextmanager
async def faulty(script: Script | None = None, port: int = 0) -> AsyncGenerator[FaultyServer]:
    """A server on loopback for the time of the block."""
    server = FaultyServer(script)
    await server.start(port)
    try:
        yield server
    finally:
        await server.stop()


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = from_json(body)
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}
