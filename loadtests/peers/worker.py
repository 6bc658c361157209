"""A peer in a process of its own: a line of JSON asks, a line answers with what it took (see serving)."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from loadtests.side_by_side import Took

# PyTorch takes a minute to come on a busy machine.
_SECONDS = 300
# Nothing is fetched, and nobody is told.
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "LANGSMITH_TRACING": "false",
    "INFINITY_ANONYMOUS_USAGE_STATS": "0",
}


class PeerEnded(OSError):
    """The process is gone; its error stands above."""


@dataclass(frozen=True)
class Did:
    """What a task answered, and what it took."""

    value: Any
    took: Took


class Worker:
    """The process of a peer."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def do(self, task: str, argument: Any = None) -> Did:
        """Raises PeerEnded, TimeoutError."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"task": task, "argument": argument}).encode() + b"\n")
        await stdin.drain()
        async with asyncio.timeout(_SECONDS):
            line = await stdout.readline()
        if not line:
            raise PeerEnded("a peer has ended; its error stands above")
        said = json.loads(line)
        if "problem" in said:
            raise PeerEnded(said["problem"])
        return Did(said["value"], Took(said["ms"], said["cpu_ms"]))


@asynccontextmanager
async def worker(python: str, module: str, *arguments: str) -> AsyncGenerator[Worker]:
    """`python -m module`, ended at the end of the block; it has answered once. Raises PeerEnded."""
    process = await asyncio.create_subprocess_exec(
        python, "-m", module, *arguments, stdin=PIPE, stdout=PIPE,
        env=os.environ | _QUIET | {"PYTHONPATH": os.getcwd()}, limit=2**26,
    )  # fmt: skip
    try:
        one = Worker(process)
        await one.do("ready")
        yield one
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
