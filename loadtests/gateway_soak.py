"""Whether the gateway leaks, and whether it counts: `python -m loadtests.gateway_soak [--seconds 1200] [--rate 100]`.

Two gateways share a Valkey and stand before a model server that fails by script. Requests come at planned times, whole
and streamed; some are aborted, some meet faults. At the end: memory and file descriptors flat (offering/trend.py), no
lease held, every accepted request counted exactly once, and the tokens of a tenant whose requests all ended well exact
to the last one. Exit status 1, and what failed, otherwise. It talks to nothing but this machine.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil

from loadtests.offering.samples import Watched
from loadtests.offering.trend import leaks
from loadtests.processes import gateway_environment, process, write_tenant
from local import ports, valkey

_ALL_CORES = range(psutil.cpu_count() or 1)
_PROMPT_TOKENS, _WORDS = 11, 12
_LIMITS = {
    "requests_per_minute": 10_000_000,
    "tokens_per_minute": 10_000_000_000,
    "daily_tokens": 10_000_000_000,
    "concurrent_requests": 10_000,
}
# What becomes of a request, how often, and what the model server is told. `exact` runs for a tenant of its own.
_STREAM = {"pieces": [f"palabra{n} " for n in range(_WORDS)], "chunk_delay_seconds": 0.02}
KINDS: Mapping[str, tuple[float, dict[str, Any]]] = {
    "whole": (30, {}),
    "stream": (35, _STREAM),
    "abort in the middle": (12, _STREAM),
    "abort before the first byte": (5, {"headers_delay_seconds": 1.0}),
    "error": (6, {"status": 500}),
    "overloaded": (4, {"status": 429, "headers": {"retry-after": "1"}}),
    "cut": (5, {**_STREAM, "ending": "reset", "after_chunks": 4}),
    "slow": (3, {"headers_delay_seconds": 1.5}),
}
_STREAMED = {"stream", "abort in the middle", "cut"}
_EXACT = {"whole", "stream", "slow"}
_READINGS = 120


@dataclass
class Tally:
    """What the clients saw."""

    sent: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    exact_tokens: int = 0
    unexpected: list[str] = field(default_factory=list[str])


class Soak:
    """One run."""

    def __init__(self, gateways: list[str], seed: int) -> None:
        self._dice = random.Random(seed)
        self._clients = [httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) for url in gateways]
        self.tally = Tally()

    async def run(self, rate: float, seconds: float) -> None:
        """Requests at planned times, whatever becomes of those before; waits for the last."""
        began = time.monotonic()
        names, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                [kind] = self._dice.choices(names, weights)
                group.create_task(self._one(kind, self._clients[number % len(self._clients)]))

    async def close(self) -> None:
        """Closes the connections."""
        for client in self._clients:
            await client.aclose()

    async def _one(self, kind: str, client: httpx2.AsyncClient) -> None:
        tenant = "exact" if kind in _EXACT else "mixed"
        self.tally.sent[kind] += 1
        body = {
            "model": "mini-1",
            "messages": [{"role": "user", "content": "¿Cuántos contratos?"}],
            "max_tokens": 50,
            "stream": kind in _STREAMED,
            "fault": {"prompt_tokens": _PROMPT_TOKENS, **KINDS[kind][1]},
        }
        headers = {"authorization": f"Bearer sk-{tenant}"}
        try:
            async with (
                asyncio.timeout(0.3 if kind == "abort before the first byte" else None),
                client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer,
            ):
                await self._read(kind, answer)
        except TimeoutError:
            self.tally.answers[f"{kind}: aborted"] += 1
        except httpx2.HTTPError as error:
            self._unexpected(kind, type(error).__name__)

    async def _read(self, kind: str, answer: httpx2.Response) -> None:
        if kind == "abort in the middle":
            async for _ in answer.aiter_raw():
                self.tally.answers[f"{kind}: aborted"] += 1
                return
        text = (await answer.aread()).decode()
        self.tally.answers[f"{kind}: {answer.status_code}"] += 1
        expected = {"error": (500, 502, 503), "overloaded": (429,)}.get(kind, (200,))
        if answer.status_code not in expected:
            self._unexpected(kind, f"{answer.status_code} {text[:200]}")
        elif kind in _EXACT:
            self._count(kind, text)
        elif kind == "cut" and ("[DONE]" in text or '"error"' not in text):
            self._unexpected(kind, f"the cut is not visible: {text[-200:]}")

    def _count(self, kind: str, text: str) -> None:
        if kind == "stream":
            whole = text.count('"content":"palabra') == _WORDS and text.endswith("data: [DONE]\n\n")
            if not whole or '"usage":{' in text:
                self._unexpected(kind, f"not whole, or with a usage that nobody asked for: {text[-200:]}")
            self.tally.exact_tokens += _PROMPT_TOKENS + _WORDS
        else:
            self.tally.exact_tokens += json.loads(text)["usage"]["total_tokens"]

    def _unexpected(self, kind: str, what: str) -> None:
        self.tally.answers[f"{kind}: unexpected"] += 1
        if len(self.tally.unexpected) < 20:
            self.tally.unexpected.append(f"{kind}: {what}")


@contextmanager
def _stack() -> Generator[tuple[list[str], list[int]]]:
    """Addresses and process ids of two gateways."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sabueso-soak-")))
        store, mock, *own = ports.pick(4, ports.random_start())
        (home / "valkey").mkdir()
        stack.enter_context(process("valkey", valkey.command(home / "valkey", store), _ALL_CORES, store))
        model = [sys.executable, "-m", "services.understudy.faults", "--port", str(mock)]
        stack.enter_context(process("model server", model, _ALL_CORES, mock))
        for tenant in ("exact", "mixed"):
            write_tenant(home, tenant, f"sk-{tenant}", _LIMITS)
        processes: list[int] = []
        for port in own:
            # Faults are the matter here: none of them may shut the one model server out for all.
            environment = gateway_environment(home, port, f"http://127.0.0.1:{mock}/v1", store, LOG_LEVEL="ERROR")
            command = [sys.executable, "-m", "services.gateway.server"]
            processes.append(stack.enter_context(process("gateway", command, _ALL_CORES, port, environment)))
        yield [f"http://127.0.0.1:{port}" for port in own], processes


async def _usage(url: str, tenant: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        return (await client.get("/v1/usage", headers={"authorization": f"Bearer sk-{tenant}"})).json()


async def _metric(gateways: list[str], name: str) -> float:
    """Over all gateways, and over all label values where `name` says none."""
    total = 0.0
    for url in gateways:
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
            lines = (await client.get("/metrics")).text.splitlines()
        total += sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))
    return total


async def _watch(processes: list[int], seconds: float) -> list[Watched]:
    """What the gateways hold, read over so many seconds."""
    began, found = time.monotonic(), list[Watched]()
    while (at := time.monotonic() - began) < seconds:
        for number, pid in enumerate(processes, 1):
            gateway = psutil.Process(pid)
            found.append(Watched(at, f"gateway {number}", gateway.memory_info().rss, gateway.num_fds()))
        await asyncio.sleep(seconds / _READINGS)
    return found


async def soak(rate: float, seconds: float, seed: int) -> list[str]:
    """What was not as it should be; prints what was seen."""
    with _stack() as (gateways, processes):
        run = Soak(gateways, seed)
        watched, _ = await asyncio.gather(_watch(processes, seconds), run.run(rate, seconds))
        await run.close()
        failures = await _verdict(gateways, run.tally)
    held = leaks(watched, seconds)
    failures += [one.text for one in held if one.failed]
    seen = {
        "requests": sum(run.tally.sent.values()),
        "answers": dict(sorted(run.tally.answers.items())),
        "held": [one.text for one in held],
        "failures": failures,
    }
    print(json.dumps(seen, ensure_ascii=False, indent=1))
    return failures


async def _verdict(gateways: list[str], tally: Tally) -> list[str]:
    failures = list(tally.unexpected)
    questions, leases, running = 0, 0.0, 0
    used: dict[str, dict[str, Any]] = {}
    for _ in range(100):  # what was aborted last is settled a moment later
        leases = await _metric(gateways, "sabueso_gateway_limiter_active_leases")
        used = {tenant: await _usage(gateways[0], tenant) for tenant in ("exact", "mixed")}
        questions += len(used)
        # The question itself is a request too.
        running = sum(one["concurrent_requests"]["used"] - 1 for one in used.values())
        if not leases and not running:
            break
        await asyncio.sleep(0.1)
    else:
        failures.append(f"leases are still held: {leases:.0f} by the gateways, {running} in the store")
    admitted = await _metric(gateways, 'sabueso_gateway_limiter_decisions_total{decision="admitted"}')
    asked = sum(tally.sent.values())
    if admitted - questions != asked:
        failures.append(f"{asked} requests were sent, {admitted - questions:.0f} were counted")
    daily: int = used["exact"]["daily_tokens"]["used"]
    if daily != tally.exact_tokens:
        failures.append(f"{tally.exact_tokens} tokens were answered, {daily} were charged")
    return failures


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--rate", type=float, default=100, help="requests a second, of all kinds")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if asyncio.run(soak(arguments.rate, arguments.seconds, arguments.seed)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
