"""The strategies by name, as one deployment has them."""

from collections.abc import Mapping

from services.orchestrator.first_calls import Remembering
from services.orchestrator.model import Model
from services.orchestrator.routing.router import Router
from services.orchestrator.strategies.rag import Rag
from services.orchestrator.strategies.react import React
from services.orchestrator.strategies.router import Routed
from services.orchestrator.strategies.strategy import Strategy


def strategies(
    model: Model, router: Router, plan: Strategy | None = None, remembering: Remembering | None = None
) -> Mapping[str, Strategy]:
    """All of them but `auto`, which chooses among them; without `plan` nothing is planned."""
    react = React(model, remembering or Remembering())
    found: dict[str, Strategy] = {"react": react, "router": Routed(model, router, react), "rag": Rag(model, react)}
    return found | ({"plan": plan} if plan else {})
