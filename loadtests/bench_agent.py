"""The agent's own time per answer, beside LangGraph's prebuilt agent and Pydantic AI, with the same script and tools.

Model and tools take no time, so all of it is the agent's. Each runs in a process of its own, a few answers at a time in
turn, so that all meet the same noise of the machine. The peers are installed at first use, in the versions of their
lock file, into an environment of their own.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from loadtests.measuring import NotMeasured
from loadtests.peers import environments
from loadtests.side_by_side import Figure, Times, Took, figures_beside

_LOOP, _SHIPPED = "sabueso", "sabueso as shipped"
_WARM_UPS, _ROUNDS, _ANSWERS = 10, 15, 10
_SECONDS_A_ROUND = 60


async def side_by_side() -> list[dict[str, Any]]:
    """Milliseconds per answer: two tools at once, then an answer of a hundred pieces.

    Ours twice: the loop alone, with which the peers are compared, and as shipped, with shield and reviewer.
    """
    peers = await asyncio.to_thread(environments.python_of, "agents")
    async with (
        _worker(sys.executable, "ours") as ours,
        _worker(sys.executable, "ours", "shipped") as shipped,
        _worker(peers, "langgraph") as langgraph,
        _worker(peers, "pydantic_ai") as pydantic_ai,
    ):
        workers = {_LOOP: ours, _SHIPPED: shipped, "LangGraph": langgraph, "Pydantic AI": pydantic_ai}
        for worker in workers.values():
            await _times(worker, _WARM_UPS)
        times = {name: Times() for name in workers}
        for round_ in range(_ROUNDS):
            for name in list(workers)[:: 1 if round_ % 2 else -1]:
                for took in await _times(workers[name], _ANSWERS):
                    times[name].add(took)
    return _figures(times)


def _figures(times: dict[str, Times]) -> list[dict[str, Any]]:
    """Ours beside each peer: time that passed, and the processor's."""
    loop = {name: one for name, one in times.items() if name != _SHIPPED}
    shipped = times[_SHIPPED]
    found = [one.fields() for one in figures_beside("agent_loop", loop, _LOOP)]
    return [*found, Figure("agent_loop_as_shipped", "ms", shipped.passed, cpu=shipped.worked).fields()]


@asynccontextmanager
async def _worker(python: str, name: str, *arguments: str) -> AsyncGenerator[Process]:
    quiet = {"PYTHONPATH": os.getcwd(), "LANGSMITH_TRACING": "false"}
    command = [python, "-m", f"loadtests.bench_agent_{name}", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env=os.environ | quiet, limit=2**20
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _times(worker: Process, answers: int) -> list[Took]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{answers}\n".encode())
    await worker.stdin.drain()
    async with asyncio.timeout(_SECONDS_A_ROUND):
        line = await worker.stdout.readline()
    if not line:
        raise NotMeasured("an agent has ended; its error stands above")
    return [Took(passed, worked) for passed, worked in json.loads(line)]
