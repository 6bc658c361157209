"""Measures and prints one JSON line a figure: `python -m loadtests.bench [--only NAME …] [--table]`.

Takes up to fifteen minutes. It starts a stack of its own, with the demo in it, and talks to nothing but this machine.
Progress goes to stderr. With `--table` the figures are kept and docs/performance.md is written from all that are.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import httpx2
from grpc import aio

from loadtests import (
    bench_agent,
    bench_answers,
    bench_cache,
    bench_gateway,
    bench_models,
    bench_parts,
    bench_search,
    bench_tools,
    machine,
    performance,
)
from loadtests.measuring import NotMeasured
from loadtests.own_stack import OwnStack
from loadtests.side_by_side import Figure
from services.runtime.errors import ServiceError

OfStack = Callable[[OwnStack], Awaitable[list[dict[str, Any]]]]

OF_H100: dict[str, OfStack] = {"flagship_h100": bench_answers.flagship}
# Without a stack.
ALONE: dict[str, Callable[[], Awaitable[list[dict[str, Any]]]]] = {
    "hybrid_search": bench_search.hybrid_search,
    "sql_guard": bench_tools.sql_guard,
    "agent_loop": bench_agent.side_by_side,
    "semantic_cache": bench_cache.semantic_cache,
    "gateways": bench_gateway.side_by_side,
    "models": bench_models.side_by_side,
    "gateway_streams": bench_gateway.streams,
    "hybrid_search_100k": bench_search.hybrid_search_growth,
}
# Only when they are named: they take an hour, or gigabytes.
ON_DEMAND = {"hybrid_search_1m": bench_search.hybrid_search_1m}
# For bench_check, with how the names of their figures begin.
QUICK: dict[str, tuple[str, ...]] = {
    "hybrid_search": ("hybrid_search_10k", "late_interaction"),
    "sql_guard": ("sql_guard",),
    "agent_loop": ("agent_loop",),
    "semantic_cache": ("semantic_cache",),
    "gateways": ("gateway_",),
    "models": ("document_embedding", "query_embedding", "cross_encoder"),
}
# In the order in which they are measured. `memory` frames them: idle before, loaded after.
OF_INSTANT: dict[str, OfStack] = {
    "sql_query": bench_parts.sql_query,
    "cache_lookup": bench_parts.cache_lookup,
    "semantic_lookup": bench_tools.semantic_lookup,
    "web_fetch": bench_tools.web_fetch,
    "query_embedding": bench_parts.query_embedding,
    "gateway": bench_answers.pass_through,
    "agent_overhead": bench_answers.agent_overhead,
    "first_event": bench_answers.first_event,
    "flagship_instant": bench_answers.flagship,
}
NAMES = (*ALONE, *OF_H100, "start_up", "memory", *OF_INSTANT)
_STARTS = 3
QUICK_SECONDS, _BUDGET_SECONDS, _SECONDS_FOR_THE_REST, _BIG_SECONDS = 210.0, 1200.0, 130, 3 * 3600.0


class Bench:
    """What is wanted, how much time is left for it, what was found and what could not be had."""

    def __init__(self, wanted: Iterable[str], seconds: float = _BUDGET_SECONDS) -> None:
        self.wanted = frozenset(wanted)
        self.found: list[dict[str, Any]] = []
        self.failed: list[str] = []
        self._began = time.monotonic()
        self._seconds = seconds

    async def run(self) -> None:
        """Everything that is wanted, each figure printed as soon as it is known."""
        alone = ALONE | ON_DEMAND
        for name, figure in alone.items():
            if name in self.wanted:
                await self._figure(name, figure())
        if self.wanted - alone.keys():
            with OwnStack() as stack:
                try:
                    await self._with(stack)
                except NotMeasured as error:
                    self._lose("stack", error)

    async def _with(self, stack: OwnStack) -> None:
        self._say("starting a stack of its own, with empty data and the latency of four H100")
        first = stack.up("h100-tp4")
        await self._all(OF_H100, stack)
        if not self.wanted - OF_H100.keys() - ALONE.keys() - ON_DEMAND.keys():
            return
        self._say("starting it again, without that latency")
        again = [stack.up("instant")]
        if "start_up" in self.wanted:
            while len(again) < _STARTS and self._left() > _SECONDS_FOR_THE_REST:
                again.append(stack.up("instant"))
            self._print(Figure("start_up_first", "s", [first]).fields())
            self._print(Figure("start_up", "s", again).fields())
        if "memory" in self.wanted:
            self._print_memory("idle", stack.memory_mib())
        await self._all(OF_INSTANT, stack)
        if "memory" in self.wanted:
            self._print_memory("loaded", stack.memory_mib())

    async def _all(self, figures: dict[str, OfStack], stack: OwnStack) -> None:
        for name, figure in figures.items():
            if name in self.wanted:
                await self._figure(name, figure(stack))

    async def _figure(self, name: str, measuring: Awaitable[list[dict[str, Any]]]) -> None:
        self._say(name)
        try:
            async with asyncio.timeout(self._left()):
                for fields in await measuring:
                    self._print(fields)
        except (NotMeasured, ServiceError, TimeoutError, aio.AioRpcError, httpx2.HTTPError, OSError) as error:
            self._lose(name, error)

    def _print(self, fields: dict[str, Any]) -> None:
        fields = {**fields, **machine.moment()}
        self.found.append(fields)
        print(json.dumps(fields, ensure_ascii=False), flush=True)

    def _print_memory(self, state: str, memory: dict[str, float]) -> None:
        for process, mib in memory.items():
            self._print(Figure(f"memory_{state}.{process}", "MiB", [mib]).fields())

    def _left(self) -> float:
        return max(0.0, self._began + self._seconds - time.monotonic())

    def _lose(self, name: str, error: Exception) -> None:
        self.failed.append(name)
        reason = "no time was left" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        self._say(f"{name} could not be measured: {reason}")

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:4.0f} s] {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when every figure was had, 1 when one was not, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.bench", description=__doc__)
    every = (*NAMES, *ON_DEMAND)
    parser.add_argument("--only", nargs="+", choices=every, default=NAMES, metavar="NAME", help=", ".join(every))
    parser.add_argument("--table", action="store_true", help="keep the figures, write docs/performance.md")
    asked = parser.parse_args(arguments)
    bench = Bench(asked.only, _BIG_SECONDS if ON_DEMAND.keys() & set(asked.only) else _BUDGET_SECONDS)
    try:
        asyncio.run(bench.run())
    except KeyboardInterrupt:
        return 130
    if asked.table:
        performance.keep(bench.found)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
