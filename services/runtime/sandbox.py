"""Calls a function in processes that can be killed: hostile content takes down nothing but its own.

They are forked from a server that has the libraries loaded (sandbox_server.py), so that a call costs milliseconds.
"""

import asyncio
import contextlib
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from services.runtime.errors import DependencyFailed
from services.runtime.sandbox_protocol import LARGEST_REQUEST_BYTES, OUT_OF_MEMORY, Refused, Request

__all__ = ["NoAnswer", "Refused", "Sandbox"]

log = logging.getLogger(__name__)

# A killed process is gone in milliseconds; a server that does not even say so is broken.
_END_SECONDS = 5
# The libraries load in a second, and a fork takes milliseconds; a machine may be a few times as slow.
_START_SECONDS = 60
_FORK_SECONDS = 10
# No setting of ours reaches the children: hostile content finds no secret there.
_KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TESSDATA_PREFIX")

Cause = Literal["time", "memory", "crash", "depth", "size", "error"]


class NoAnswer(Exception):
    """The function ended without an answer.

    `cause`: it used up its time or memory, a signal ended it (`crash`: a library gave up, or got no memory), it nested
    too deeply, it or its answer was too large, or it raised an `error`. `detail` is for a log and holds no content.
    """

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(f"no answer: {cause}")
        self.cause: Cause = cause
        self.detail = detail


class _ServerGone(Exception):
    """The server ended in the middle of a call."""


class Sandbox:
    """One function with the limits of a call: address space in bytes, wall-clock and CPU time in seconds.

    `entry` names the function, `module:function`: bytes and keyword arguments in, rows out, each what JSON can hold. It
    may raise Refused. `max_answer_bytes` bounds all rows as JSON.
    """

    def __init__(
        self, entry: str, *, memory_bytes: int, timeout_seconds: float, max_answer_bytes: int = 64 * 1024 * 1024
    ) -> None:
        self._entry = entry
        self._memory_bytes = memory_bytes
        self._timeout_seconds = timeout_seconds
        self._max_answer_bytes = max_answer_bytes
        self._server: _Server | None = None

    def start(self) -> None:
        """Starts the server, so that the first call need not wait for the libraries. Returns at once."""
        if self._server is None or not self._server.is_alive():
            self.close()
            self._server = _Server(self._entry)

    def close(self) -> None:
        """Ends the server and whatever is running. The next `run` starts another."""
        if self._server is not None:
            self._server.end()
            self._server = None

    @property
    def server_id(self) -> int:
        """Process id of the server, 0 while there is none."""
        return self._server.process_id if self._server else 0

    async def run(self, content: Path | bytes, **arguments: Any) -> Iterator[Any]:
        """Rows of the function for `content`, a file or bytes, and `arguments`; they are decoded one by one.

        Raises Refused with the function's own words, NoAnswer, OSError when the file cannot be opened, and
        DependencyFailed when the server cannot be kept running: the content is not to blame.
        """
        request = Request(arguments, self._memory_bytes, int(self._timeout_seconds) + 1)
        for attempt in range(2):
            try:
                answer, status = await self._answer(request, content)
                return _understood(answer, status)
            except _ServerGone:
                log.warning("the sandbox's server ended", extra={"entry": self._entry, "attempt": attempt + 1})
        raise DependencyFailed("The sandbox's server does not run.", dependency="sandbox")

    async def _answer(self, request: Request, content: Path | bytes) -> tuple[bytearray, int]:
        self.start()
        server = self._server
        assert server is not None
        with server.ask(request, content) as (answer, life):
            child = _Child(life)
            try:
                await child.begin(server)
                async with asyncio.timeout(self._timeout_seconds):
                    text = await self._read(answer)
                    return text, await child.status()
            except TimeoutError:
                raise NoAnswer("time") from None
            except ConnectionError:
                raise _ServerGone from None
            finally:
                await asyncio.shield(child.end(server))

    async def _read(self, answer: socket.socket) -> bytearray:
        loop = asyncio.get_running_loop()
        text = bytearray()
        while part := await loop.sock_recv(answer, 1024 * 1024):
            text += part
            if len(text) > self._max_answer_bytes:
                raise NoAnswer("size")
        return text


def _understood(answer: bytearray, status: int) -> Iterator[Any]:
    if status == -signal.SIGXCPU:
        raise NoAnswer("time")
    # Nobody here has killed it: the kernel does, when the memory of the machine or the container is used up.
    if status in (OUT_OF_MEMORY, -signal.SIGKILL):
        raise NoAnswer("memory")
    if status < 0:
        raise NoAnswer("crash", f"signal {-status}")
    lines = _lines(answer)
    nothing: dict[str, Any] = {}
    first = next(lines, nothing) if status == 0 else nothing
    if "refused" in first:
        raise Refused(first["refused"])
    if "too_deep" in first:
        raise NoAnswer("depth")
    if "rows" not in first:
        raise NoAnswer("error", first.get("failed", f"status {status}"))
    return lines


class _Server:
    """The process from which the others are forked."""

    def __init__(self, entry: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The requests are small, and a server that takes none for so long is broken.
        self._control.settimeout(_END_SECONDS)
        with theirs:
            process = subprocess.Popen(
                (sys.executable, "-m", "services.runtime.sandbox_server", entry),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"OMP_THREAD_LIMIT": "1"},
                start_new_session=True,
            )
        self._process = process
        self.process_id = process.pid
        # Until then it may be loading libraries.
        self.has_forked = False
        # Also when nobody calls `end`: at the latest when this process ends.
        self.end = weakref.finalize(self, _end, process, self._control)

    def is_alive(self) -> bool:
        """Whether it still takes requests, as far as is known."""
        return self.end.alive and self._process.poll() is None

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self.end()

    @contextlib.contextmanager
    def ask(self, request: Request, content: Path | bytes) -> Generator[tuple[socket.socket, socket.socket]]:
        """Sockets for the answer and for the life of the child. Raises _ServerGone, NoAnswer and OSError."""
        message = json.dumps(asdict(request), ensure_ascii=False).encode("utf-8", "replace")
        if len(message) > LARGEST_REQUEST_BYTES:
            raise NoAnswer("size", "the arguments are too long")
        (answer, child_answer), (life, child_life) = socket.socketpair(), socket.socketpair()
        with answer, life:
            with child_answer, child_life, _opened(content) as file:
                try:
                    descriptors = [child_answer.fileno(), child_life.fileno(), file]
                    socket.send_fds(self._control, [message], descriptors)
                except OSError:
                    self.end()
                    raise _ServerGone from None
            answer.setblocking(False)
            life.setblocking(False)
            yield answer, life


@contextlib.contextmanager
def _opened(content: Path | bytes) -> Generator[int]:
    """The content as an open file; bytes are in one that has no name. Raises OSError."""
    if isinstance(content, Path):
        with content.open("rb", buffering=0) as file:
            yield file.fileno()
    else:
        with tempfile.TemporaryFile(buffering=0) if sys.platform != "linux" else _in_memory() as file:
            file.write(content)
            yield file.fileno()


def _in_memory() -> io.FileIO:
    return io.FileIO(os.memfd_create("content"), "r+")


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Child:
    """One process, as its server tells of it."""

    def __init__(self, life: socket.socket) -> None:
        self._life = life
        self._told = b""
        self._over = False

    async def begin(self, server: "_Server") -> None:
        """Waits until it runs: what the server takes to start is not the content's fault. Raises _ServerGone."""
        seconds = _FORK_SECONDS if server.has_forked else _START_SECONDS
        try:
            # Not wait_for: before Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout(seconds):
                await self._listen(lines=1)
        except TimeoutError:
            raise _ServerGone from None
        if not self._told:
            raise _ServerGone
        server.has_forked = True

    async def status(self) -> int:
        """How the process ended: negative for a signal. Raises _ServerGone."""
        await self._listen()
        _, _, status = self._told.partition(b"\n")
        if not status:
            raise _ServerGone
        return int(status)

    async def _listen(self, lines: int = 2) -> None:
        while not self._over and self._told.count(b"\n") < lines:
            try:
                part = await asyncio.get_running_loop().sock_recv(self._life, 64)
            except ConnectionError:
                part = b""
            self._told += part
            self._over = not part

    async def end(self, server: _Server) -> None:
        """Has the process killed, where it still runs, and waits until it is gone."""
        if self._told.count(b"\n") < 2:
            with contextlib.suppress(OSError):
                self._life.shutdown(socket.SHUT_WR)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._listen()
        process_id, _, status = self._told.partition(b"\n")
        if status:
            return
        # The server ended or hangs. Its children die with it, those of a child do not.
        await asyncio.to_thread(server.kill)
        if process_id:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(process_id), signal.SIGKILL)


def _lines(answer: bytearray) -> Iterator[Any]:
    """Parsed one by one: the whole as JSON would take its size several times over."""
    start = 0
    while (end := answer.find(b"\n", start)) >= 0:
        yield json.loads(answer[start:end])
        start = end + 1
