"""Questions with the calls that they need, and what is right of a route."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.orchestrator.arguments import ForeignForm, TypedForm
from services.orchestrator.model import Message
from services.orchestrator.results import Found, Rows
from services.orchestrator.routing.router import Route
from services.orchestrator.tools import SqlQuery, Tool, VectorSearch, WebSearch
from services.runtime.tenants import Tenant

SOURCES = ("vector_search", "sql_query", "web_search")


@dataclass(frozen=True)
class Case:
    """A question; of each of its `calls` the `tool`, and the `arguments`, or what its `query_has` and `query_lacks`.

    `tenant`: who is asked; one without a file has nothing of its own. `history`: role and text of what came before.
    """

    id: str
    language: str
    stratum: str
    question: str
    calls: Sequence[dict[str, Any]]
    tenant: str = "demo"
    history: Sequence[tuple[str, str]] = ()

    @property
    def earlier(self) -> list[Message]:
        """The conversation before it."""
        return [Message(role, text) for role, text in self.history]

    @property
    def tools(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(sorted(call["tool"] for call in self.calls))


@dataclass(frozen=True)
class Judged:
    """A case and its route.

    `routed`: the router decided, be it that the model still has to write a free statement. A reviewed query that it
    takes for a free statement is left to the model, and so is no decision: nothing wrong comes of it.
    """

    case: Case
    route: Route
    min_confidence: float

    @property
    def named(self) -> tuple[str, ...]:
        """The tools that the route names, in order."""
        return tuple(sorted(self.route.tools))

    @property
    def routed(self) -> bool:
        """See the class."""
        sure = self.route.confidence >= self.min_confidence and not (self.route.abstained and not self.route.tools)
        return sure and not (self.named != self.case.tools and _sources(self.named) == _sources(self.case.tools))

    @property
    def right(self) -> bool:
        """Whether the tools are those that the question needs."""
        return self.named == self.case.tools

    @property
    def right_source(self) -> bool:
        """The same, where a free statement and a reviewed query are one."""
        return _sources(self.named) == _sources(self.case.tools)

    def arguments(self, defaults: Mapping[str, Mapping[str, Any]]) -> list[bool]:
        """Of each reviewed query that is called and should be: whether all its arguments are right."""
        given: dict[str, Any] = {call.name: json.loads(call.arguments_json) for call in self.route.calls}
        return [
            {**defaults[call["tool"]], **call["arguments"]} == {**defaults[call["tool"]], **given[call["tool"]]}
            for call in self.case.calls
            if "arguments" in call and call["tool"] in given
        ]

    def queries(self) -> list[bool]:
        """Of each search that says what its query must have: whether it has that, and nothing that it must lack."""
        given: dict[str, Any] = {call.name: json.loads(call.arguments_json) for call in self.route.calls}
        found: list[bool] = []
        for call in self.case.calls:
            if call["tool"] in given and ("query_has" in call or "query_lacks" in call):
                query: str = given[call["tool"]]["query"]
                has: list[str] = call.get("query_has", [])
                lacks: list[str] = call.get("query_lacks", [])
                found.append(all(re.search(one, query, re.I) for one in has) and not any(one in query for one in lacks))
        return found


def _sources(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(name if name in SOURCES else "sql_query" for name in names))


def read(path: Path) -> list[Case]:
    """The cases of a file of JSON lines."""
    return [Case(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def tools_of(tenant: Tenant | None) -> Mapping[str, Tool]:
    """The tools of a tenant as the router sees them, ours where it has no file; they cannot be called."""
    forms = {
        "vector_search": TypedForm(VectorSearch),
        "sql_query": TypedForm(SqlQuery),
        "web_search": TypedForm(WebSearch),
    }
    sources = tenant.sql if tenant else ()
    queries = {name: query for source in sources for name, query in source.verified_queries.items()}
    made = {name: _tool(name, form) for name, form in forms.items()}
    return {**made, **{name: _tool(name, ForeignForm({}), query.description) for name, query in queries.items()}}


def defaults_of(*tenants: Tenant) -> Mapping[str, Mapping[str, Any]]:
    """What the reviewed queries take where nothing is given."""
    return {
        name: {
            parameter: list(one.default) if isinstance(one.default, tuple) else one.default
            for parameter, one in query.parameters.items()
            if one.default is not None
        }
        for tenant in tenants
        for source in tenant.sql
        for name, query in source.verified_queries.items()
    }


def foreign_tool(name: str, description: str) -> Tool:
    """A tool of somebody else, known by its description."""
    return _tool(name, ForeignForm({}), description, origin="public")


def _tool(name: str, form: ForeignForm | TypedForm, description: str = "", origin: str = "") -> Tool:
    async def call(arguments: Any, seconds: float) -> Found:
        raise NotImplementedError  # it is routed to, never called

    return Tool(name, "none", description, form, Rows, call, 1, origin=origin)
