"""Has files parsed in processes that can be killed: a hostile file takes down nothing but its own.

They are forked from a server that has the libraries loaded (prefork.py), so that a small file costs milliseconds.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from services.ingestion.parsed import Parsed, Unreadable
from services.ingestion.prefork import LARGEST_REQUEST_BYTES, OUT_OF_MEMORY, Request
from services.runtime.errors import DependencyFailed

log = logging.getLogger(__name__)

# All text of the file with the headings above each block, as JSON.
_LARGEST_ANSWER_BYTES = 64 * 1024 * 1024
# A killed process is gone in milliseconds; a server that does not even say so is broken.
_END_SECONDS = 5
# The libraries load in a second, and a fork takes milliseconds; a machine may be a few times as slow.
_START_SECONDS = 60
_FORK_SECONDS = 10
# No setting of ours reaches the children: a hostile file finds no secret there.
_KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TESSDATA_PREFIX")
_LONGEST_NAME = 1024


class _ServerGone(Exception):
    """The parsing server ended in the middle of a file."""


class Parser:
    """Limits of one parse: address space in bytes, wall-clock and CPU time in seconds.

    `entry` names the function that reads a file: bytes, name and media type in, Parsed out.
    """

    def __init__(
        self, memory_bytes: int, timeout_seconds: float, *, entry: str = "services.ingestion.parsers.parse:parse"
    ) -> None:
        self._memory_bytes = memory_bytes
        self._timeout_seconds = timeout_seconds
        self._entry = entry
        self._server: _Server | None = None

    def start(self) -> None:
        """Starts the server, so that the first file need not wait for the libraries. Returns at once."""
        if self._server is None or not self._server.is_alive():
            self.close()
            self._server = _Server(self._entry)

    def close(self) -> None:
        """Ends the server and whatever is being parsed. The next `parse` starts another."""
        if self._server is not None:
            self._server.end()
            self._server = None

    @property
    def server_id(self) -> int:
        """Process id of the server, 0 while there is none."""
        return self._server.process_id if self._server else 0

    async def parse(self, path: Path, filename: str, content_type: str) -> Parsed:
        """Blocks of the file at `path`. Raises Unreadable with a reason for the person who sent it.

        Raises DependencyFailed when the parsing server cannot be kept running: the file is not to blame.
        """
        request = self._request(path, filename, content_type)
        for attempt in range(2):
            try:
                answer, status = await self._answer(request)
                return await asyncio.to_thread(self._understood, answer, status)
            except _ServerGone:
                log.warning("the parsing server ended", extra={"attempt": attempt + 1})
        raise DependencyFailed("The parsing server does not run.", dependency="parsing")

    def _request(self, path: Path, filename: str, content_type: str) -> Request:
        seconds = int(self._timeout_seconds) + 1
        names = filename[-_LONGEST_NAME:], content_type[:_LONGEST_NAME]
        return Request(str(path.absolute()), *names, self._memory_bytes, seconds)

    async def _answer(self, request: Request) -> tuple[bytearray, int]:
        self.start()
        server = self._server
        assert server is not None
        with server.ask(request) as (answer, life):
            child = _Child(life)
            try:
                await child.begin(server)
                async with asyncio.timeout(self._timeout_seconds):
                    text = await _read(answer)
                    return text, await child.status()
            except TimeoutError:
                raise self._too_slow() from None
            except ConnectionError:
                raise _ServerGone from None
            finally:
                await asyncio.shield(child.end(server))

    def _too_slow(self) -> Unreadable:
        return Unreadable(f"Reading the file took longer than {self._timeout_seconds:g} s; split it up.")

    def _understood(self, answer: bytearray, status: int) -> Parsed:
        if status == -signal.SIGXCPU:
            raise self._too_slow()
        # Nobody here has killed it: the kernel does, when the memory of the machine or the container is used up.
        if status in (OUT_OF_MEMORY, -signal.SIGKILL):
            mebibytes = self._memory_bytes // 2**20
            raise Unreadable(f"Reading the file took more than {mebibytes} MiB of memory; split it up.")
        if status < 0:
            # PDFium ends the process when it gets no memory.
            mebibytes = self._memory_bytes // 2**20
            log.warning("the parsing process was ended", extra={"exit_status": status})
            raise Unreadable(f"The file is damaged, or reading it takes more than {mebibytes} MiB of memory.")
        lines = _lines(answer)
        nothing: dict[str, Any] = {}
        first = next(lines, nothing) if status == 0 else nothing
        if "unreadable" in first:
            raise Unreadable(first["unreadable"])
        if "parsed" not in first:
            log.warning("parsing failed", extra={"exit_status": status, "cause": first.get("failed", "")})
            raise Unreadable("The file is damaged: reading it failed.")
        return Parsed.from_json(first["parsed"] | {"blocks": lines})


class _Server:
    """The process from which the parsing processes are forked."""

    def __init__(self, entry: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The requests are small, and a server that takes none for so long is broken.
        self._control.settimeout(_END_SECONDS)
        with theirs:
            process = subprocess.Popen(
                (sys.executable, "-m", "services.ingestion.prefork", entry),
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
    def ask(self, request: Request) -> Generator[tuple[socket.socket, socket.socket]]:
        """Sockets for the answer and for the life of the child. Raises _ServerGone."""
        message = json.dumps(asdict(request)).encode()
        if len(message) > LARGEST_REQUEST_BYTES:
            raise Unreadable("The file's name is too long.")
        (answer, child_answer), (life, child_life) = socket.socketpair(), socket.socketpair()
        with answer, life:
            with child_answer, child_life:
                try:
                    socket.send_fds(self._control, [message], [child_answer.fileno(), child_life.fileno()])
                except OSError:
                    self.end()
                    raise _ServerGone from None
            answer.setblocking(False)
            life.setblocking(False)
            yield answer, life


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Child:
    """One parsing process, as its server tells of it."""

    def __init__(self, life: socket.socket) -> None:
        self._life = life
        self._told = b""
        self._over = False

    async def begin(self, server: "_Server") -> None:
        """Waits until it runs: what the server takes to start is not the file's fault. Raises _ServerGone."""
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


async def _read(answer: socket.socket) -> bytearray:
    loop = asyncio.get_running_loop()
    text = bytearray()
    while part := await loop.sock_recv(answer, 1024 * 1024):
        text += part
        if len(text) > _LARGEST_ANSWER_BYTES:
            raise Unreadable("The file holds too much text; split it up.")
    return text


def _lines(answer: bytearray) -> Iterator[Any]:
    """Parsed one by one: the whole as JSON would take its size several times over."""
    start = 0
    while (end := answer.find(b"\n", start)) >= 0:
        yield json.loads(answer[start:end])
        start = end + 1
