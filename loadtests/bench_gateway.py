"""What the gateway adds to a request that it passes on, beside Envoy and Portkey's open gateway, in one run."""

import sys
from typing import Any

from loadtests.fast_upstream import CHUNKS
from loadtests.gateways import gateways
from loadtests.measuring import Figure, NotMeasured, percentile
from loadtests.raw_client import Connection, Target, at_a_rate, throughput

_RATE, _SECONDS = 50, 15
_CONNECTIONS, _FULL_SECONDS = 16, 6
_WARM_UPS = 200


async def side_by_side() -> list[dict[str, Any]]:
    """Added time at 50 requests a second each, and answers a second on one core."""
    with gateways() as targets:
        for target in targets:
            await _warm_up(target)
        times = await at_a_rate(targets, _RATE, _SECONDS)
        full = {target.name: await throughput(target, _CONNECTIONS, _FULL_SECONDS) for target in targets}
    return [*_added(times), *_throughput(full)]


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
    """Each gateway's percentiles less those without one."""
    direct = times.pop("direct")
    added = {
        gateway: {percent: percentile(values, percent) - percentile(direct, percent) for percent in (50, 95, 99)}
        for gateway, values in times.items()
    }
    figures = [{"name": f"{name}.direct", **_figure(direct)}]
    for gateway, by_percent in added.items():
        said = {f"p{percent}": round(value, 3) for percent, value in by_percent.items()}
        ratio = {} if gateway == "sabueso" else {"sabueso_ratio": round(added["sabueso"][50] / by_percent[50], 2)}
        figures.append({"name": f"{name}.{gateway}", "unit": "ms", **said, "n": len(times[gateway]), **ratio})
    return figures


def _figure(values: list[float]) -> dict[str, Any]:
    fields = Figure("", "ms", values).fields()
    del fields["name"]
    return fields


def _throughput(full: dict[str, float]) -> list[dict[str, Any]]:
    figures: list[dict[str, Any]] = []
    for name, value in full.items():
        ratio = {} if name in ("sabueso", "direct") else {"sabueso_ratio": round(full["sabueso"] / value, 2)}
        figures.append({"name": f"gateway_throughput.{name}", "unit": "1/s", "value": round(value), **ratio})
    return figures
