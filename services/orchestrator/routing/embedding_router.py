"""Routes by examples: an embedding of the question, a linear head, and reviewed queries that fit word for word."""

import asyncio
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
from services.orchestrator.routing.choice import Calibration, committed
from services.orchestrator.routing.encoder import QueryEncoder
from services.orchestrator.routing.follow_up import Fit, fit, goes_on, varied
from services.orchestrator.routing.head import SEVERAL
from services.orchestrator.routing.learning import Lessons
from services.orchestrator.routing.reviewed import Reviewed
from services.orchestrator.routing.router import Asked, Route
from services.orchestrator.routing.segments import Piece, Segment, segments
from services.orchestrator.routing.sums import is_sum
from services.orchestrator.routing.wording import cleaned, document_search, fragments, parts, punctuated, tokens
from services.orchestrator.tools import Tool
from services.runtime.errors import ServiceError
from services.runtime.expressions.folding import fold
from services.runtime.tenants import TenantDirectory

log = logging.getLogger(__name__)

_MAX_CHARS = 2_000
_MAX_WEB_CHARS = 400
# A source that is not asked is the worst mistake: that none is needed may be wrong less often, in proportion.
_NONE_RISK = 0.43
_IN_COLLECTION = r"\b(?:collection|coleccion)\s+[\"'«“`]?{name}\b|\b{name}\s+collection\b|[\"'«“`]{name}[\"'»”`]"


@dataclass(frozen=True)
class _Decided:
    """A route and how it is counted."""

    route: Route
    outcome: str


@dataclass(frozen=True)
class _Heard:
    """The question, its parts as it asks them one after another, and the fragments that tell what it is about."""

    whole: Piece
    parts: Sequence[Piece]
    fragments: Sequence[Piece]


class EmbeddingRouter:
    """See Router. What tells a tenant's questions apart is learned in the background, or with its first question."""

    def __init__(
        self,
        encoder: QueryEncoder,
        tenants: TenantDirectory,
        *,
        min_confidence: float = 0.65,
        today: Callable[[], date] = date.today,
        calibration: Calibration | None = None,
        retry_seconds: float = 3,
        examples: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Below `min_confidence` it abstains, from saying that no tool is needed a little sooner.

        `retry_seconds`: until an encoder that failed is asked again. `examples`: questions by label for any company;
        those of examples.yaml where there are none.
        """
        self._encoder = encoder
        self._lessons = Lessons(encoder, tenants, retry_seconds, examples)
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
        if is_sum(question):
            return _Decided(Route(confidence=1.0, reason="the question is a sum"), "no_tool")
        usable = [one for name, one in learned.reviewed.items() if name in asked.tools]
        if (call := fit(usable, question, self._today())) is not None:
            # It says every word of the question: no vector could tell more.
            return self._settled(asked, question, Route(), self._calibration.fits, [(_whole(question), call)])
        pieces, smallest = parts(question), fragments(question)
        texts = [question, *pieces, *smallest]
        spoken = list(dict.fromkeys(punctuated(text) for text in texts))
        encoded = await self._encoder.encode(spoken, seconds)
        self._lessons.met(encoded.model)
        if encoded.model != learned.model:
            return _unavailable("the embedding model has just changed")
        if not np.isfinite(encoded.vectors).all():
            return _unavailable("the embedding model gives no numbers")
        scores = dict(zip(spoken, learned.head.scores(spoken, encoded.vectors), strict=True))
        whole, *smaller = [Piece(text, scores[punctuated(text)]) for text in texts]
        heard = _Heard(whole, smaller[: len(pieces)], smaller[len(pieces) :])
        return self._decided(asked, usable, heard)

    def _decided(self, asked: Asked, usable: Sequence[Reviewed], heard: _Heard) -> _Decided:
        question = heard.whole.text
        call = varied(usable, asked.history, asked.question, self._today()) if _leans(asked, question) else None
        route = Route(scores=_scores(heard))
        if call:
            return self._settled(asked, question, route, self._calibration.fits, [(_whole(question), call)], known=True)
        return self._settled(asked, question, route, *self._parted(heard, usable))

    def _settled(
        self,
        asked: Asked,
        question: str,
        route: Route,
        confidence: float,
        found: Sequence[tuple[Segment, Fit | None]],
        *,
        known: bool = False,
    ) -> _Decided:
        """What becomes of what was `found`; `known`: what the question leans on was taken into account."""
        names = [call.name if call else one.label for one, call in found]
        route = replace(route, confidence=confidence, tools=tuple(names))
        if confidence < least_confidence(self._min_confidence, none=not names):
            said = ", ".join(f"{name} {score:.2f}" for name, score in list(route.scores.items())[:2])
            return _abstained(route, "unsure", f"the router is not sure ({said})")
        leans = not known and _leans(asked, question)
        if leans if names else goes_on(asked.history, question):
            # What it needs is not to be seen in its own words.
            return _abstained(replace(route, tools=()), "follow_up", "the question leans on the conversation")
        if not names:
            return _Decided(replace(route, reason="the question needs no tool"), "no_tool")
        return _with_calls(route, found, question, asked.tools)

    def _parted(self, heard: _Heard, usable: Sequence[Reviewed]) -> tuple[float, list[tuple[Segment, Fit | None]]]:
        """How sure it is of the tools, and what of the question is for each, with the reviewed query that says it."""
        fits = {one.text: fit(usable, one.text, self._today()) for one in heard.parts} if len(heard.parts) > 1 else {}
        if any(fits.values()):
            # What that part needs is known, so that the others are questions of their own.
            choices = [self._calibration.choose(one.scores, []) for one in heard.parts if not fits[one.text]]
            labels = frozenset(("sql_query",)).union(*(one.labels for one in choices))
            confidence = min(self._calibration.fits, *(one.confidence for one in choices), 1.0)
        else:
            choice = self._calibration.choose(heard.whole.scores, [one.scores for one in heard.fragments])
            labels, confidence = choice.labels, choice.confidence
        found = segments(heard.whole, heard.parts, labels) if labels else []
        return confidence, [(one, fits.get(one.text) if one.label == "sql_query" else None) for one in found]


def least_confidence(min_confidence: float, *, none: bool) -> float:
    """What a decision must have; `none`: that no tool is needed."""
    return 1 - _NONE_RISK * (1 - min_confidence) if none else min_confidence


def _whole(question: str) -> Segment:
    """The question as one for the tables."""
    return Segment(question, "sql_query")


def _leans(asked: Asked, question: str) -> bool:
    """Whether only the conversation says what is meant."""
    return bool(asked.history) and leans_on_history(question)


def _abstained(route: Route, outcome: str, reason: str) -> _Decided:
    return _Decided(replace(route, abstained=True, reason=reason), outcome)


def _unavailable(reason: str) -> _Decided:
    lost = Degraded("router", reason)
    return _Decided(Route(abstained=True, reason=reason, degraded=(lost,)), "unavailable")


def _with_calls(
    route: Route, found: Sequence[tuple[Segment, Fit | None]], question: str, tools: Mapping[str, Tool]
) -> _Decided:
    """The route with the calls; abstains where a tool is missing, or only the model can write its arguments."""
    calls: list[ToolCall] = []
    for one, call in found:
        arguments = call.arguments if call else _arguments(one, question, tools)
        name = call.name if call else one.label
        if name not in tools:
            return _abstained(route, "missing", f"there is no tool `{name}`, which the question needs")
        if arguments is None:
            return _abstained(route, "arguments", f"{name}: the model has to write its arguments")
        calls.append(ToolCall(f"route_{len(calls) + 1}", name, json.dumps(arguments, ensure_ascii=False)))
    reason = ", ".join(f"{name} ({route.confidence:.2f})" for name in route.tools)
    return _Decided(replace(route, calls=tuple(calls), reason=reason), "calls")


def _scores(heard: _Heard) -> Mapping[str, float]:
    """The best score of each label over the question and its parts, the best one first."""
    scored = (heard.whole, *heard.parts)
    best = {name: max(one.scores[name] for one in scored) for name in heard.whole.scores if name != SEVERAL}
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
