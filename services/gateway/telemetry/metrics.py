"""Prometheus metrics of requests for models, whose labels no client can invent."""

from collections.abc import Callable

from prometheus_client import Counter, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)

REQUEST_SECONDS = Histogram(
    "sabueso_gateway_model_request_seconds",
    "Time of requests for models, to their last byte.",
    ["operation", "model", "outcome"],
    buckets=_SECONDS,
)
FIRST_TOKEN_SECONDS = Histogram(
    "sabueso_gateway_model_first_token_seconds", "Time to the first token of a stream (TTFT).", ["model"],
    buckets=_SECONDS,
)  # fmt: skip
OUTPUT_TOKEN_SECONDS = Histogram(
    "sabueso_gateway_model_output_token_seconds", "Time of each further token of a stream (TPOT).", ["model"],
    buckets=_TOKEN_SECONDS,
)  # fmt: skip
TOKENS = Counter("sabueso_gateway_model_tokens_total", "Tokens, estimated where no server counted.", ["model", "type"])

OTHER = "other"
_MOST_NAMES = 64


class ModelNames:
    """Which names may be labels: those that are configured, and a few that have answered."""

    def __init__(self, known: Callable[[str], bool]) -> None:
        self._known = known
        self._answered: set[str] = set()

    def label_of(self, name: str, *, answered: bool) -> str:
        """The name, or `other`. `answered`: a model of that name was asked and did what was wanted."""
        if self._known(name) or name in self._answered:
            return name
        if answered and len(self._answered) < _MOST_NAMES:
            self._answered.add(name)
            return name
        return OTHER
