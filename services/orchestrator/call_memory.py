"""What the calls of a run have come to: what failed, what is gone, how many there were. Parts of a run share it."""

from collections import Counter
from dataclasses import dataclass, field

from services.orchestrator.results import Degraded

# A tool whose service failed is tried once more.
_MOST_BREAKDOWNS = 2


@dataclass(frozen=True)
class Failure:
    """Why a call gave nothing. `degraded` is set when the service, not the call, was at fault.

    What helps to mend it: a `hint`, a `code` of the service's closed list, and the `position` in the statement, from 1.
    `field` names what is wrong of the call. `not_made`: it never left us; `refused`: because the shield forbade it.
    """

    message: str
    hint: str = ""
    degraded: Degraded | None = None
    code: str = ""
    position: str = ""
    field: str = ""
    not_made: bool = False
    refused: bool = False


@dataclass
class CallMemory:
    """`failures` by tool and arguments; `failed_tools` are those that have not worked since they failed.

    `calls`: those that were made or found in the cache. `kinds`: of the tools that were really asked.
    """

    failures: dict[tuple[str, str], Failure] = field(default_factory=dict[tuple[str, str], Failure])
    failed_tools: set[str] = field(default_factory=set[str])
    kinds: set[str] = field(default_factory=set[str])
    calls: int = 0
    cache_hits: int = 0
    cache_lost: bool = False
    _breakdowns: Counter[str] = field(default_factory=Counter[str])

    def broke_down(self, tool: str) -> None:
        """The service of a tool has failed, in one more turn."""
        self._breakdowns[tool] += 1

    def worked(self, tool: str) -> None:
        """A tool has given something."""
        self._breakdowns.pop(tool, None)

    def is_gone(self, tool: str) -> bool:
        """Whether a tool has failed so often that it is not tried again."""
        return self._breakdowns[tool] >= _MOST_BREAKDOWNS
