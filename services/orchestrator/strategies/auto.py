"""Chooses how to answer, by the question and by the time that there is for it."""

from collections.abc import Collection
from dataclasses import dataclass, field

from services.orchestrator.events import Chosen
from services.orchestrator.routing.router import AskTheModel, Route, Router
from services.orchestrator.run import Run
from services.orchestrator.strategies.dependence import depends
from services.orchestrator.strategies.router import route_of

AUTO = "auto"
_NO_SEARCHES = frozenset({"calculate"})


@dataclass(frozen=True)
class Auto:
    """`plan_seconds`: less is too little time for a plan; `rag_seconds`: less is too little for a turn with tools."""

    router: Router = field(default_factory=AskTheModel)
    plan_seconds: float = 10
    rag_seconds: float = 3

    async def choose(self, run: Run, there: Collection[str]) -> Chosen:
        """The choice, among the strategies that are `there`."""
        seconds = run.seconds_left()
        if not run.tools.toolset.tools:
            return run.choose("react", "there are no tools")
        if "plan" in there and seconds >= self.plan_seconds and depends(run.task.question):
            return run.choose("plan", "one part of the question needs the answer to another")
        route = await route_of(run, self.router)
        if "router" in there and not route.abstained:
            names = ", ".join(dict.fromkeys(call.name for call in route.calls)) or "no tool"
            return run.choose("router", f"the question itself says what it needs: {names}", route.confidence)
        if "rag" in there and seconds < self.rag_seconds and _documents_only(run, route):
            return run.choose("rag", "there is little time, and the documents are what there is to ask")
        return run.choose("react", route.reason or "the router is not sure", route.confidence)


def _documents_only(run: Run, route: Route) -> bool:
    """Whether nothing else is there, or nothing else is as likely to be asked for."""
    searches = run.tools.toolset.tools.keys() - _NO_SEARCHES
    likeliest = max(route.scores, key=lambda name: route.scores[name], default="")
    return "vector_search" in searches and (len(searches) == 1 or likeliest == "vector_search")
