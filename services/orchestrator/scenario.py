"""Of which kind an answer was, for its latency: what a second means depends on how many turns and tools it took."""

from collections.abc import Collection
from typing import Literal

from services.orchestrator.tools import EXTERNAL

Scenario = Literal[
    "web", "external", "rag", "router", "plan", "direct", "one_iteration", "two_iterations", "three_iterations", "more"
]
_BY_ITERATIONS: tuple[Scenario, ...] = ("direct", "one_iteration", "two_iterations", "three_iterations")


def scenario_of(strategy: str, turns: int, kinds: Collection[str]) -> Scenario:
    """The scenario of a run by its strategy, its model turns, and the kinds of the tools that were asked.

    Sites and servers of others come first, because they decide how long such an answer takes. The last turn only
    writes: one turn less is the number of iterations.
    """
    if "web_search" in kinds:
        return "web"
    if EXTERNAL in kinds:
        return "external"
    if strategy == "rag" or strategy == "router" or strategy == "plan":
        return strategy
    iterations = max(0, turns - 1)
    return _BY_ITERATIONS[iterations] if iterations < len(_BY_ITERATIONS) else "more"
