"""Runs the parser in a process of its own, which can be killed: a hostile file takes down nothing but that."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from services.ingestion.parsed import Parsed, Unreadable

log = logging.getLogger(__name__)

# JSON of the largest text that is accepted, escapes included.
_LARGEST_ANSWER_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class Parser:
    """Limits of one parse: address space in bytes, wall-clock and CPU time in seconds."""

    memory_bytes: int
    timeout_seconds: float

    async def parse(self, path: Path, filename: str, content_type: str) -> Parsed:
        """Blocks of the file at `path`. Raises Unreadable with a reason for the person who sent it."""
        # No setting of ours reaches the child: a hostile file finds no secret there.
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "PYTHONPATH") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.ingestion.parse", str(path), filename, content_type),
            *(str(self.memory_bytes), str(int(self.timeout_seconds) + 1)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=kept,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self.timeout_seconds):
                answer = await _read(process)
                status = await process.wait()
        except TimeoutError:
            raise Unreadable(f"Reading the file took longer than {self.timeout_seconds:g} s; split it up.") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await asyncio.shield(process.wait())
        return await asyncio.to_thread(self._understood, answer, status)

    def _understood(self, answer: bytes, status: int) -> Parsed:
        if status == 0:
            value = json.loads(answer)
            if "unreadable" in value:
                raise Unreadable(value["unreadable"])
            return Parsed.from_json(value["parsed"])
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            raise Unreadable(f"Reading the file took longer than {self.timeout_seconds:g} s; split it up.")
        if status == 3:
            mebibytes = self.memory_bytes // 2**20
            raise Unreadable(f"Reading the file took more than {mebibytes} MiB of memory; split it up.")
        log.warning("the parsing process failed", extra={"exit_status": status})
        raise Unreadable("The file is damaged: reading it failed.")


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    parts: list[bytes] = []
    size = 0
    while part := await process.stdout.read(1024 * 1024):
        size += len(part)
        if size > _LARGEST_ANSWER_BYTES:
            raise Unreadable("The file holds too much text; split it up.")
        parts.append(part)
    return b"".join(parts)
