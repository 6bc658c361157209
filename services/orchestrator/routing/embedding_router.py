"""Routes by examples: an embedding of the question, a linear head, and reviewed queries that fit word for word."""

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from services.orchestrator.model import ToolCall
from services.orchestrator.query_shape import leans_on_history
from services.orchestrator.results import Degraded
from services.orchestrator.routing import metrics
from services.orchestrator.routing.calibration import Calibration, committed
from services.orchestrator.routing.encoder import QueryEncoder
from services.orchestrator.routing.examples import NONE
from services.orchestrator.routing.learning import Lessons
from services.orchestrator.routing.reviewed import Reviewed
from services.orchestrator.routing.router import Asked, Route
from services.orchestrator.routing.segments import Segment, fitting, segment, segments
from services.orchestrator.routing.slots import NotFilled
from services.orchestrator.routing.wording import cleaned, document_search, parts, tokens
from services.orchestrator.tools import Tool
from services.runtime.errors import ServiceError
from services.runtime.expressions.folding import fold
from services.runtime.tenants import TenantDirectory

log = logging.getLogger(__name__)

_MAX_CHARS = 2_000
_MAX_WEB_CHARS = 400
_IN_COLLECTION = r"\b(?:collection|coleccion)\s+[\"'«“`]?{name}\b|\b{name}\s+collection\b|[\"'«“`]{name}[\"'»”`]"


@dataclass(frozen=True)
class _Decided:
    """A route and how it is counted."""

    route: Route
    outcome: str


class EmbeddingRouter:
    """See Router. What tells a tenant's questions apart is learned in the background, or with its first question."""

    def __init__(
        self,
        encoder: QueryEncoder,
        tenants: TenantDirectory,
        *,
        min_confidence: float = 0.85,
        today: Callable[[], date] = date.today,
        calibration: Calibration | None = None,
        retry_seconds: float = 3,
    ) -> None:
        """Below `min_confidence` it abstains. `retry_seconds`: after so long an encoder that failed is asked again."""
        self._encoder = encoder
        self._lessons = Lessons(encoder, tenants, retry_seconds)
        self._min_confidence = min_confidence
        self._today = today
        self._calibration = calibration or committed()

    async def route(self, asked: Asked, seconds: float) -> Route:
        """See Router."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(seconds):
                decided = await self._route(asked, seconds)
        except TimeoutError:
            decided = _unavailable("the router did not answer in time")
        except ServiceError as error:
            decided = _unavailable(error.message.rstrip("."))
        except Exception:
            log.exception("unexpected error of the router")
            decided = _unavailable("the router failed")
        metrics.ROUTES.labels(decided.outcome).inc()
        metrics.ROUTE_SECONDS.observe(time.perf_counter() - started)
        return decided.route

    def begin(self, act_for: Callable[[str], None]) -> None:
        """Learns what there is for every tenant, in the background; see Lessons."""
        self._lessons.begin(act_for)

    async def close(self) -> None:
        """Ends what is being learned."""
        await self._lessons.close()

    async def _route(self, asked: Asked, seconds: float) -> _Decided:
        if len(asked.question) > _MAX_CHARS:
            return _abstained(Route(), "long", "the question is too long for the router")
        if not tokens(asked.question):
            return _abstained(Route(), "unsure", "the question has no words")
        learned = await self._lessons.of(asked.tenant_id, asked.tools)
        question = cleaned(asked.question)
        pieces = parts(question)
        texts = [question, *(pieces if len(pieces) > 1 else ())]
        encoded = await self._encoder.encode(texts, seconds)
        self._lessons.met(encoded.model)
        if encoded.model != learned.model:
            return _unavailable("the embedding model has just changed")
        if not np.isfinite(encoded.vectors).all():
            return _unavailable("the embedding model gives no numbers")
        scored = [
            segment(text, learned.head.scores(text, vector))
            for text, vector in zip(texts, encoded.vectors, strict=True)
        ]
        return self._decided(asked, learned.reviewed, scored)

    def _decided(self, asked: Asked, reviewed: Mapping[str, Reviewed], scored: Sequence[Segment]) -> _Decided:
        whole = scored[0]
        usable = [one for name, one in reviewed.items() if name in asked.tools]
        fit = self._fit(usable, whole.text)
        found = [(fitting(whole), fit)] if fit else [(one, None) for one in segments(whole, scored[1:])]
        found = [
            (one, call or (self._fit(usable, one.text) if one.label == "sql_query" else None)) for one, call in found
        ]
        confidence = min(self._calibration.confidence(one.lead, fits=one.fits) for one, _ in found)
        names = [call[0] if call else one.label for one, call in found if one.label != NONE]
        route = Route(confidence=confidence, scores=_scores(scored), tools=tuple(names))
        if confidence < self._min_confidence:
            said = ", ".join(f"{name} {score:.2f}" for name, score in list(route.scores.items())[:2])
            return _abstained(route, "unsure", f"the router is not sure ({said})")
        if not names:
            return _Decided(replace(route, reason="the question needs no tool"), "no_tool")
        if asked.history and leans_on_history(whole.text):
            return _abstained(route, "follow_up", "the question leans on the conversation")
        calls: list[ToolCall] = []
        for one, call in found:
            arguments = call[1] if call else _arguments(one, whole.text, asked.tools)
            name = call[0] if call else one.label
            if name not in asked.tools:
                return _abstained(route, "missing", f"there is no tool `{name}`, which the question needs")
            if arguments is None:
                return _abstained(route, "arguments", f"{name}: the model has to write its arguments")
            calls.append(ToolCall(f"route_{len(calls) + 1}", name, json.dumps(arguments, ensure_ascii=False)))
        reason = ", ".join(f"{name} ({confidence:.2f})" for name in names)
        return _Decided(replace(route, calls=tuple(calls), reason=reason), "calls")

    def _fit(self, usable: Sequence[Reviewed], text: str) -> tuple[str, Mapping[str, Any]] | None:
        """The one reviewed query that says every word of the text, with its arguments."""
        found: list[tuple[str, Mapping[str, Any]]] = []
        for one in usable:
            with contextlib.suppress(NotFilled):
                found.append((one.name, one.fit(text, self._today())))
        return found[0] if len(found) == 1 else None


def _abstained(route: Route, outcome: str, reason: str) -> _Decided:
    return _Decided(replace(route, abstained=True, reason=reason), outcome)


def _unavailable(reason: str) -> _Decided:
    lost = Degraded("router", reason)
    return _Decided(Route(abstained=True, reason=reason, degraded=(lost,)), "unavailable")


def _scores(scored: Sequence[Segment]) -> Mapping[str, float]:
    """The best score of each label over the question and its parts, the best one first."""
    best = {name: max(one.scores[name] for one in scored) for name in scored[0].scores}
    return {name: round(best[name], 3) for name in sorted(best, key=lambda name: -best[name])}


def _arguments(one: Segment, question: str, tools: Mapping[str, Tool]) -> Mapping[str, Any] | None:
    """The arguments of a tool that takes words; None where only the model can write them."""
    match one.label:
        case "vector_search":
            collection = _collection(question, tools.get(one.label))
            found = document_search(question, "" if one.leans else one.text)
            return found | ({"collection": collection} if collection else {})
        case "web_search" if not one.leans and len(one.text) <= _MAX_WEB_CHARS:
            return {"query": one.text}
        case _:
            return None


def _collection(question: str, tool: Tool | None) -> str:
    """The collection that the question names as one: in quotes, or with the word."""
    if tool is None:
        return ""
    schema: Any = tool.form.schema.get("properties", {}).get("collection", {})
    names = [name for name in schema.get("enum", ()) or (schema.get("const"),) if isinstance(name, str)]
    named = [name for name in names if re.search(_IN_COLLECTION.format(name=re.escape(fold(name))), fold(question))]
    return named[0] if len(named) == 1 else ""
