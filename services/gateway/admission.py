"""Who may come in: the key, the size of the body and the limits, before anything else is done."""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.access.callers import Caller
from services.gateway.access.key_ring import KeyRing
from services.gateway.answer import AGENT
from services.gateway.errors import ApiError
from services.gateway.limits import bodies
from services.gateway.limits.charge import Charge
from services.gateway.limits.decision import Limiter, LimiterUnavailable
from services.gateway.limits.headers import limit_headers
from services.gateway.limits.plan import Limit, Plans
from services.gateway.limits.refusals import refusal, unavailable
from services.gateway.limits.reservation import Estimate, Reservation, Writes
from services.gateway.line import Line
from services.gateway.metering import Meter
from services.runtime import context

_GUARDED = ("/v1/", "/mcp")
_INTERNAL_BODY_BYTES = 32 * 1024 * 1024
# Requests for a model, whose body says what they will cost; and whether a model writes something for them.
MODEL_ROUTES: Mapping[str, Writes] = {
    "/v1/chat/completions": "text",
    "/v1/completions": "text",
    "/v1/responses": "text",
    "/v1/embeddings": "nothing",
    "/v1/rerank": "nothing",
}
_MODEL_OPTIONAL = "/v1/rerank"


@dataclass(frozen=True)
class Terms:
    """What holds for every request.

    `output_tokens` are reserved for an answer whose length the request does not say; `agent_tokens` for a request to
    the agent, whose turns are charged one by one. A body must be there within `body_seconds`; of uploads and the like,
    which may take longer, some more.
    """

    output_tokens: int = 1024
    agent_tokens: int = 500
    body_seconds: float = 60


class Admission:
    """ASGI middleware: everything below `/v1` needs a key and counts against its tenant's limits.

    It leaves in the request's state: `caller`, `meter`, `decision` (None for our own services), `release` (a coroutine
    function that ends the request's account early), and for requests to models `body` and `asked`.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: KeyRing,
        limiter: Limiter,
        resolve: Callable[[str], str] = str,
        terms: Terms | None = None,
    ) -> None:
        """`resolve`: the served name behind an alias."""
        self._app = app
        self._keys = keys
        self._limiter = limiter
        self._resolve = resolve
        self._terms = terms or Terms()
        self._plans = Plans()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_GUARDED):
            return await self._app(scope, receive, send)
        if scope["path"].endswith("\n"):  # for a route's pattern it would be the address before it
            raise HTTPException(404)
        caller = await self._keys.identify(scope)
        state: MutableMapping[str, Any] = scope["state"]
        meter = Meter()
        charge = Charge(self._limiter, caller.tenant.id, meter)
        state.update(caller=caller, meter=meter, decision=None, release=charge.settle)
        context.enter(context.CallContext(caller.identity, caller.token))

        async def send_and_settle(message: Message) -> None:
            if message["type"] == "http.response.start":
                charge.status = message["status"]
            elif not message.get("more_body", False):
                # Before the last byte: a client that has read it may ask again at once.
                charge.finished = True
                await charge.begin_to_settle()
            await send(message)

        try:
            receive = await self._admit(scope, receive, caller, charge)
            await self._app(scope, receive, send_and_settle)
        except Exception:
            charge.failed = not charge.status
            await charge.settle()
            raise
        finally:
            await charge.begin_to_settle()

    async def _admit(self, scope: Scope, receive: Receive, caller: Caller, charge: Charge) -> Receive:
        """Reads the body where its cost depends on it, and takes what it needs. What is wrong with it counts too."""
        state: MutableMapping[str, Any] = scope["state"]
        line: Line = state["line"]
        meter: Meter = state["meter"]
        plan = self._plan(caller)
        problem: ApiError | None = None
        needed = Reservation()
        try:
            most_bytes = _INTERNAL_BODY_BYTES if caller.internal else caller.tenant.limits.body_bytes
            line.limit(most_bytes, self._terms.body_seconds)
            if scope["method"] == "POST" and scope["path"] in MODEL_ROUTES:
                body = await bodies.read(receive, None if line.is_complete else self._terms.body_seconds)
                receive = bodies.replayed(body, receive)
                asked = bodies.parse(body, model_needed=scope["path"] != _MODEL_OPTIONAL)
                state.update(body=body, asked=asked)
                meter.model = self._resolve(asked.get("model") or "")
                plan = self._plan(caller, meter.model)
                needed = self._estimate(meter, asked, MODEL_ROUTES[scope["path"]], plan, caller)
        except ApiError as error:
            problem = error
        if caller.internal:
            charge.count_only(plan)
        else:
            await self._ask(state, plan, charge, needed)
        if problem is not None:
            charge.status = problem.status_code
            raise problem
        return receive

    def _plan(self, caller: Caller, model: str = "") -> tuple[Limit, ...]:
        return self._plans.plan(caller.tenant, caller.identity.principal, caller.key_limits, model)

    def _estimate(
        self, meter: Meter, asked: Mapping[str, Any], writes: Writes, plan: tuple[Limit, ...], caller: Caller
    ) -> Reservation:
        if meter.model == AGENT and not caller.internal:
            # Its parameters are the agent's to judge, and its prompt is not what its turns will read.
            needed = Reservation.guessed(0, self._terms.agent_tokens)
        else:
            estimate = Estimate.of(asked, "nothing" if caller.internal else writes)
            meter.prompt_tokens = estimate.prompt
            needed = estimate.reserve(() if caller.internal else plan, self._terms.output_tokens)
        meter.reserved_tokens = needed.tokens
        return needed

    async def _ask(
        self, state: MutableMapping[str, Any], plan: tuple[Limit, ...], charge: Charge, needed: Reservation
    ) -> None:
        try:
            decision = await charge.admit(plan, needed.tokens, needed.least)
        except LimiterUnavailable as error:
            raise unavailable(error) from None
        state["decision"] = decision
        cast(dict[str, str], state["answer_headers"]).update(limit_headers(decision.standings))
        refused = decision.refused_by
        if refused is not None:
            raise refusal(refused, needed.least)


def caller_of(request: Request) -> Caller:
    """Who a request below `/v1` is made for."""
    return request.state.caller


def meter_of(request: Request) -> Meter:
    """Where the request's tokens are counted."""
    return request.state.meter


def asked_of(request: Request) -> dict[str, Any]:
    """The body of a request for a model, parsed."""
    return request.state.asked
