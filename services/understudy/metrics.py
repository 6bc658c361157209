"""Metrics under vLLM's names and labels, so that dashboards, alerts and scalers see no difference."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_LABELS = ["model_name", "engine"]
_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_REQUEST = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)


class EngineMetrics:
    """Numbers of one served model. The registry is its own, so that several can live in one process."""

    def __init__(self, model_name: str) -> None:
        self._registry = CollectorRegistry()
        self._labels = (model_name, "0")
        self.running = self._gauge("num_requests_running", "Requests worked on.")
        self.waiting = self._gauge("num_requests_waiting", "Requests that wait for a place.")
        self.kv_cache_usage = self._gauge("kv_cache_usage_perc", "Places taken, 0 to 1.")
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens read.")
        self.generation_tokens = self._counter("generation_tokens", "Tokens written.")
        self.time_to_first_token = self._histogram("time_to_first_token_seconds", "Arrival to first token.", _TTFT)
        self.inter_token_latency = self._histogram("inter_token_latency_seconds", "Between tokens.", _PER_TOKEN)
        self.time_per_output_token = self._histogram(
            "request_time_per_output_token_seconds", "Mean time between the tokens of a request.", _PER_TOKEN
        )
        self.e2e_latency = self._histogram("e2e_request_latency_seconds", "Arrival to last token.", _REQUEST)
        self.queue_time = self._histogram("request_queue_time_seconds", "Time waiting for a place.", _REQUEST)
        self.decode_time = self._histogram("request_decode_time_seconds", "First to last token.", _REQUEST)
        self._finished = Counter(
            "vllm:request_success",
            "Requests by how they ended.",
            [*_LABELS, "finished_reason"],
            registry=self._registry,
        )
        for reason in ("stop", "length", "abort"):
            self._finished.labels(*self._labels, reason)

    def finished(self, reason: str) -> None:
        """Counts the end of a request: stop, length or abort."""
        self._finished.labels(*self._labels, reason).inc()

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"vllm:{name}", text, _LABELS, registry=self._registry).labels(*self._labels)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"vllm:{name}", text, _LABELS, registry=self._registry).labels(*self._labels)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"vllm:{name}", text, _LABELS, buckets=buckets, registry=self._registry).labels(*self._labels)
