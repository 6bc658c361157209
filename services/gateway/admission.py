"""Who may come in: the key, the tenant's limits and the size of the body, before anything else is done."""

import asyncio
import uuid
from collections.abc import MutableMapping
from typing import Any, cast

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.errors import ApiError, retry_after
from services.gateway.keys import Caller, KeyRing
from services.gateway.limits import Decision, Limiter
from services.gateway.line import Line
from services.runtime import context

_GUARDED = ("/v1/", "/mcp")
# Where our own services come in with a signed identity in place of a key: the agent's model turns.
_INTERNAL = ("/v1/chat/completions", "/v1/embeddings")
_INTERNAL_BODY_BYTES = 32 * 1024 * 1024


class Admission:
    """ASGI middleware: everything below `/v1` needs a key and counts against its tenant's limits."""

    def __init__(self, app: ASGIApp, keys: KeyRing, limiter: Limiter) -> None:
        self._app = app
        self._keys = keys
        self._limiter = limiter
        self._releasing: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_GUARDED):
            return await self._app(scope, receive, send)
        caller = self._identify(scope)
        state: MutableMapping[str, Any] = scope["state"]
        line: Line = state["line"]
        state["caller"] = caller
        context.enter(context.CallContext(caller.identity, caller.token))
        if caller.internal:
            line.limit(_INTERNAL_BODY_BYTES)
            return await self._app(scope, receive, send)
        lease = _Lease(self._limiter, caller.tenant.id)
        try:
            decision = await self._limiter.admit(caller.tenant.id, caller.tenant.limits, lease.id)
            state["decision"] = decision
            cast(dict[str, str], state["answer_headers"]).update(limit_headers(decision))
            if decision.refused_by:
                raise _refusal(decision)
            line.limit(caller.tenant.limits.body_bytes)

            async def send_and_release(message: Message) -> None:
                # Before the last byte: a client that has read it may ask again at once.
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    await lease.release()
                await send(message)

            await self._app(scope, receive, send_and_release)
        finally:
            if not lease.released:
                # A task of its own, because this one may be cancelled already.
                releasing = asyncio.create_task(lease.release())
                self._releasing.add(releasing)
                releasing.add_done_callback(self._releasing.discard)

    def _identify(self, scope: Scope) -> Caller:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        scheme, _, credential = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential:
            raise _unauthorized("No API key was sent. Send it as `Authorization: Bearer <key>`.")
        caller = self._keys.owner_of(credential)
        if caller is None and scope["path"] in _INTERNAL:
            caller = self._keys.bearer_of(credential)
        if caller is None:
            raise _unauthorized("The API key is not valid.")
        return caller


class _Lease:
    """One running request of a tenant's; given back once."""

    def __init__(self, limiter: Limiter, tenant: str) -> None:
        self.id = uuid.uuid4().hex
        self.released = False
        self._limiter = limiter
        self._tenant = tenant

    async def release(self) -> None:
        if not self.released:
            await self._limiter.release(self._tenant, self.id)
            self.released = True


def caller_of(request: Request) -> Caller:
    """Who a request below `/v1` is made for."""
    return request.state.caller


def limit_headers(decision: Decision) -> dict[str, str]:
    """The limit's state in OpenAI's form. Empty when there is no limit."""
    if not decision.limit:
        return {}
    return {
        "x-ratelimit-limit-requests": str(decision.limit),
        "x-ratelimit-remaining-requests": str(decision.remaining),
        "x-ratelimit-reset-requests": duration_text(decision.reset_seconds),
    }


def duration_text(seconds: float) -> str:
    """A duration as OpenAI writes it: `120ms`, `1.5s`, `6m0s`."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"


def _refusal(decision: Decision) -> ApiError:
    headers = retry_after(decision.retry_after_seconds)
    if decision.refused_by == "concurrency":
        message = f"This tenant already has {decision.active} requests running, which is its limit."
        return ApiError(429, message, code="concurrency_limit_exceeded", headers=headers)
    wait = headers["Retry-After"]
    message = f"This tenant's limit of {decision.limit} requests a minute is used up; try again in {wait} s."
    return ApiError(429, message, code="rate_limit_exceeded", headers=headers)


def _unauthorized(message: str) -> ApiError:
    return ApiError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
