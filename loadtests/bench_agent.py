"""The agent's own time per answer, beside LangGraph's prebuilt agent and Pydantic AI, with the same script and tools.

Model and tools take no time, so all of it is the agent's. Each runs in a process of its own, a few answers at a time in
turn, so that all meet the same noise of the machine. The peers are installed at first use, in versions that are named
here, into an environment of their own.
"""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from loadtests.measuring import Figure, NotMeasured, percentile

PEERS = ("langchain==1.5.2", "langgraph==1.2.24", "pydantic-ai-slim==2.68.0")
_FOLDER = Path(".sabueso/peers")
_WARM_UPS, _ROUNDS, _ANSWERS = 10, 15, 10
_SECONDS_A_ROUND = 60


async def side_by_side() -> list[dict[str, Any]]:
    """Milliseconds per answer: two tools at once, then an answer of a hundred pieces.

    Ours twice: the loop alone, with which the peers are compared, and as shipped, with shield and reviewer.
    """
    peers = await asyncio.to_thread(_installed)
    async with (
        _worker(sys.executable, "ours") as ours,
        _worker(sys.executable, "ours", "shipped") as shipped,
        _worker(peers, "langgraph") as langgraph,
        _worker(peers, "pydantic_ai") as pydantic_ai,
    ):
        workers = {"sabueso": ours, "sabueso as shipped": shipped, "LangGraph": langgraph, "Pydantic AI": pydantic_ai}
        for worker in workers.values():
            await _times(worker, _WARM_UPS)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in workers}
        for round_ in range(_ROUNDS):
            for name in list(workers)[:: 1 if round_ % 2 else -1]:
                times[name] += await _times(workers[name], _ANSWERS)
    return _figures(times)


def _figures(times: dict[str, list[tuple[float, float]]]) -> list[dict[str, Any]]:
    """Time that passed, and the processor's: on a machine that is busy otherwise only that one compares well."""
    figures: list[dict[str, Any]] = []
    for kind, name in enumerate(("agent_loop", "agent_loop_cpu")):
        ours = percentile([one[kind] for one in times["sabueso"]], 50)
        for agent, pairs in times.items():
            values = [one[kind] for one in pairs]
            ratio = {} if agent.startswith("sabueso") else {"sabueso_ratio": round(ours / percentile(values, 50), 3)}
            figures.append(Figure(f"{name}.{agent}", "ms", values).fields(**ratio))
    return figures


def _installed() -> str:
    """The Python that has the peers."""
    folder = _FOLDER / hashlib.sha1(" ".join(PEERS).encode(), usedforsecurity=False).hexdigest()[:8]
    python = folder / "bin/python"
    if not folder.exists():
        uv, half = str(Path(sys.executable).parent / "uv"), folder.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        _run([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(half)])
        _run([uv, "pip", "install", "--quiet", "--python", str(half / "bin/python"), *PEERS])
        half.rename(folder)
    return str(python.absolute())


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise NotMeasured(f"the other agents could not be installed: {said[-300:]}") from None


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


async def _times(worker: Process, answers: int) -> list[tuple[float, float]]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{answers}\n".encode())
    await worker.stdin.drain()
    async with asyncio.timeout(_SECONDS_A_ROUND):
        line = await worker.stdout.readline()
    if not line:
        raise NotMeasured("an agent has ended; its error stands above")
    return [(passed, worked) for passed, worked in json.loads(line)]


if __name__ == "__main__":
    for figure in asyncio.run(side_by_side()):
        print(json.dumps(figure, ensure_ascii=False))
