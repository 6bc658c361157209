"""What the gateway adds to a request that it passes on, beside Envoy and Portkey's open gateway, in one run."""

import math
import sys
from typing import Any

import psutil

from loadtests.fast_upstream import CHUNKS
from loadtests.gateways import gateways
from loadtests.measuring import NotMeasured, percentile
from loadtests.raw_client import Connection, Target, at_a_rate, throughput
from loadtests.side_by_side import Figure, Run, Times, Took, figures_beside, ratio_of, take_turns

_RATE, _SECONDS = 50, 12
_CONNECTIONS, _SLICES, _SLICE_SECONDS = 16, 5, 1.5
_OURS = "sabueso"
_WARM_UPS = 200


async def side_by_side() -> list[dict[str, Any]]:
    """Added time at 50 requests a second each, then answers a second on one core and the processor's time for one."""
    with gateways() as targets:
        for target in targets:
            await _warm_up(target)
        times = await at_a_rate(targets, _RATE, _SECONDS)
        full = await take_turns({target.name: _at_full_load(target) for target in targets}, rounds=_SLICES, seconds=60)
    return [*_added(times), *_throughput(full)]


def _at_full_load(target: Target) -> Run:
    """Milliseconds an answer."""
    process = psutil.Process(target.process_id) if target.process_id else None

    def worked() -> float:
        used = process.cpu_times() if process else None
        return used.user + used.system if used else math.nan

    async def run() -> Took:
        before = worked()
        per_second = await throughput(target, _CONNECTIONS, _SLICE_SECONDS)
        return Took(1000 / per_second, 1000 * (worked() - before) / (per_second * _SLICE_SECONDS))

    return run


async def streams() -> list[dict[str, Any]]:
    """A stream of 40 chunks, 10 ms apart: how much later its end comes than without a gateway."""
    with gateways(stream=True) as targets:
        whole = [target for target in targets if await _is_whole(target)]
        times = await at_a_rate(whole, 5, 15)
    return _added(times, "gateway_stream_added")


async def _is_whole(target: Target) -> bool:
    try:
        body = await Connection(target).ask()
    except NotMeasured as error:  # Portkey 1.15 fails at streams on some versions of Node
        print(f"{error}; it is left out", file=sys.stderr)
        return False
    return body.count(b"\ndata: ") >= CHUNKS and body.endswith(b"data: [DONE]\n\n")


async def _warm_up(target: Target) -> None:
    connection = Connection(target)
    for _ in range(_WARM_UPS):
        await connection.ask()
    connection.close()


def _added(times: dict[str, list[float]], name: str = "gateway_added") -> list[dict[str, Any]]:
    """Each gateway's percentiles less those without one; ours beside each peer by its median."""
    direct = times.pop("direct")
    found: list[dict[str, Any]] = [Figure(f"{name}.direct", "ms", direct).fields()]
    for gateway, values in times.items():
        less = {f"p{percent}": percentile(values, percent) - percentile(direct, percent) for percent in (50, 95, 99)}
        said = {key: round(value, 3) for key, value in less.items()}
        found.append({"name": f"{name}.{gateway}", "unit": "ms", **said, "n": len(values)})
        if gateway != _OURS:
            ratio = ratio_of(times[_OURS], values, less=direct)
            found.append({"name": name, "unit": "ms", "peer": {"name": gateway}, **ratio.fields()})
    return found


def _throughput(full: dict[str, Times]) -> list[dict[str, Any]]:
    """Answers a second; ours beside each peer by the time of an answer, so that below 1 is better here too."""
    found: list[dict[str, Any]] = []
    for gateway, times in full.items():
        per_second = [1000 / one for one in times.passed]
        found.append(Figure(f"gateway_throughput.{gateway}", "1/s", per_second, cpu=times.worked).fields())
    peers = {name: times for name, times in full.items() if name != "direct"}
    return found + [one.fields() for one in figures_beside("gateway_full_load", peers, _OURS)]
