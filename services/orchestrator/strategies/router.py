"""Answers by a route: the question itself says which tools it needs, and the model has one turn only."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from services.orchestrator.events import Event
from services.orchestrator.model import Model
from services.orchestrator.routing.router import Asked, Route, Router
from services.orchestrator.run import Run
from services.orchestrator.stopwatch import Part
from services.orchestrator.strategies.react import synthesise
from services.orchestrator.strategies.strategy import Strategy
from services.orchestrator.turns import act

# As long as a search would wait: while embedding is busy a route still costs less than a turn of the model.
_MOST_SECONDS = 5.0


async def route_of(run: Run, router: Router) -> Route:
    """The route of the run's question, asked for once."""
    if run.route is None:
        asked = Asked(run.task.tenant_id, run.task.question, run.tools.toolset.tools, run.task.history)
        with run.tools.stopwatch.during(Part.TOOLS):
            run.route = await router.route(asked, min(_MOST_SECONDS, max(0.0, run.tool_seconds())))
    return run.route


@dataclass(frozen=True)
class Routed:
    """The route's calls and one turn. `react` answers where the router is not sure, and goes on where it was wrong."""

    model: Model
    router: Router
    react: Strategy

    async def answer(self, run: Run) -> AsyncGenerator[Event]:
        """See Strategy."""
        route = await route_of(run, self.router)
        for event in run.degrade(*route.degraded):
            yield event
        if route.calls and not route.abstained and await run.wants_evidence():
            async with aclosing(act(run, run.decide(route.calls))) as events:
                async for event in events:
                    yield event
        otherwise = self._otherwise(run, route)
        if otherwise:
            yield run.choose("react", otherwise, route.confidence)
        rest = self.react.answer(run) if otherwise else synthesise(self.model, run)
        async with aclosing(rest) as events:
            async for event in events:
                yield event

    def _otherwise(self, run: Run, route: Route) -> str:
        """Why the model has to choose the tools itself; empty where it has not."""
        if route.abstained:
            return route.reason or "the router is not sure"
        if run.called_tools and not run.found and not run.out_of_time():
            return "the route led to nothing"
        return ""
