"""Plain RAG (Lewis et al. 2020): search the documents with the question itself, then answer."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from services.orchestrator.events import Event
from services.orchestrator.model import Model, ToolCall
from services.orchestrator.routing.wording import document_search
from services.orchestrator.run import Run
from services.orchestrator.strategies.react import synthesise
from services.orchestrator.strategies.strategy import Strategy
from services.orchestrator.turns import act

# What document search takes.
_MAX_QUERY_CHARS = 4_096


@dataclass(frozen=True)
class Rag:
    """One search and one turn. `react` answers where there is no document search."""

    model: Model
    react: Strategy

    async def answer(self, run: Run) -> AsyncGenerator[Event]:
        """See Strategy."""
        if "vector_search" not in run.tools.toolset.tools:
            yield run.choose("react", "there is no document search")
            async with aclosing(self.react.answer(run)) as events:
                async for event in events:
                    yield event
            return
        if await run.wants_evidence():
            query = json.dumps(document_search(run.task.question.strip()[:_MAX_QUERY_CHARS]), ensure_ascii=False)
            async with aclosing(act(run, run.decide([ToolCall("", "vector_search", query)]))) as events:
                async for event in events:
                    yield event
        async with aclosing(synthesise(self.model, run)) as events:
            async for event in events:
                yield event
