"""What a server says of its own load, in vLLM's metrics."""

import re
from dataclasses import dataclass

_GAUGE = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|kv_cache_usage_perc|gpu_cache_usage_perc)"
    rb"(?:\{[^}\n]*\})?[ \t]+([^\s#]+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Load:
    """Requests that it works on and that wait inside it; `kv_cache` is the part of its cache that is taken, 0 to 1."""

    running: float = 0
    waiting: float = 0
    kv_cache: float = 0


def load_of(exposition: bytes) -> Load | None:
    """Reads Prometheus' text format or OpenMetrics. Summed over engines; None where the numbers are missing."""
    running = waiting = None
    kv_cache = 0.0
    for name, text in _GAUGE.findall(exposition):
        try:
            value = max(0.0, float(text))
        except ValueError:
            continue
        if value != value or value == float("inf"):
            continue
        if name == b"num_requests_running":
            running = (running or 0.0) + value
        elif name == b"num_requests_waiting":
            waiting = (waiting or 0.0) + value
        else:
            kv_cache = max(kv_cache, value)
    if running is None or waiting is None:
        return None
    return Load(running, waiting, min(1.0, kv_cache))
