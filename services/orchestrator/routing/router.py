"""What a router is asked and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.orchestrator.model import Message, ToolCall
from services.orchestrator.results import Degraded
from services.orchestrator.tools import Tool


@dataclass(frozen=True)
class Asked:
    """A question and the tools that are there for it."""

    tenant_id: str
    question: str
    tools: Mapping[str, Tool]
    history: Sequence[Message] = ()


@dataclass(frozen=True)
class Route:
    """The calls that the question asks for, with their arguments; several where it needs several.

    `abstained`: the router is not sure, or cannot write the arguments (a free SQL statement): ask the model. No calls
    without that mean that the question needs no tool. `confidence` is calibrated: of those with 0.9, 9 in 10 are right.
    `tools`: those that it thinks are needed, also where it abstains because it cannot write their arguments.
    `scores`: by tool, for people. `reason`: one line for people. `degraded`: what it had to do without.
    """

    calls: tuple[ToolCall, ...] = ()
    abstained: bool = False
    confidence: float = 0
    reason: str = ""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    tools: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()


class Router(Protocol):
    """Routes questions."""

    async def route(self, asked: Asked, seconds: float) -> Route:
        """The route, within `seconds`. Never raises: a router that cannot work abstains and says why."""
        ...

    async def close(self) -> None:
        """Ends what it does beside routes."""
        ...


class AskTheModel:
    """Always abstains."""

    async def route(self, asked: Asked, seconds: float) -> Route:
        """See Router."""
        return Route(abstained=True, reason="there is no router")

    async def close(self) -> None:
        """See Router."""
