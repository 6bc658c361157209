"""ASGI middleware that nothing slips past: every request for a model goes through the guard, and so does its answer.

It stands inside of admission, which has read and parsed the body; the agent's own turns were let in once already, as
the question that they serve.
"""

import logging
import time
from collections.abc import MutableMapping
from typing import Any, cast

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.access.callers import Caller
from services.gateway.errors import ApiError, failure_of
from services.gateway.guards.chain import GuardChain, Guards
from services.gateway.guards.metrics import FINDINGS, INPUT_SECONDS, UNSCANNED
from services.gateway.guards.replies import ReplyScan
from services.gateway.guards.request_texts import FIELDS
from services.gateway.guards.scanning import ContentBlocked, Report, header_of
from services.gateway.limits.bodies import replayed
from services.gateway.streams.events import DONE, sse
from services.gateway.streams.framing import Event, EventTooLarge, Framer

log = logging.getLogger("sabueso.guard")

# Their answers are numbers, and texts that came with the request.
_NUMBERS_ONLY = ("/v1/embeddings", "/v1/rerank")
# A kept answer is told again as the agent gave it; the policy may have changed since.
_TOLD_AGAIN = "/v1/responses/"
_MAX_ANSWER_BYTES = 32 * 1024 * 1024


class GuardDoor:
    """The middleware."""

    def __init__(self, app: ASGIApp, guards: Guards) -> None:
        self._app = app
        self._guards = guards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: MutableMapping[str, Any] = scope.get("state", {})
        caller: Caller | None = state.get("caller")
        asked: dict[str, Any] | None = state.get("asked")
        again = scope.get("method") == "GET" and scope.get("path", "").startswith(_TOLD_AGAIN)
        asks = asked is not None and scope.get("path") in FIELDS
        if caller is None or caller.internal or not (asks or again):
            return await self._app(scope, receive, send)
        chain = self._guards.chain_for(caller.tenant)
        if chain is None:
            return await self._app(scope, receive, send)
        outgoing = _Outgoing(chain, send) if chain.checks_output and scope["path"] not in _NUMBERS_ONLY else None
        try:
            if asked is not None:
                receive = await self._check_input(scope, receive, asked, chain)
            if outgoing is None:
                return await self._app(scope, receive, send)
            _ask_for_plain_bytes(scope)
            await outgoing.serve(self._app, scope, receive)
        finally:
            state["guard_blocked"] = any(action == "block" for _, _, action in chain.report.found)
            _audit(chain.report, caller, state, complete=outgoing is None or outgoing.complete)

    async def _check_input(self, scope: Scope, receive: Receive, asked: dict[str, Any], chain: GuardChain) -> Receive:
        since = time.perf_counter()
        try:
            checked = await chain.check_input(asked, scope["path"])
        finally:
            INPUT_SECONDS.observe(time.perf_counter() - since)
        state: MutableMapping[str, Any] = scope["state"]
        shown = header_of(chain.report)
        if shown:
            cast(dict[str, str], state["answer_headers"])["x-sabueso-guard"] = shown
        if checked is asked:
            return receive
        body = orjson.dumps(checked)
        state.update(asked=checked, body=body)
        while (await receive()).get("more_body", False):  # what it replaces; admission holds all of it
            pass
        return replayed(body, receive)


class _Stopped(Exception):
    """Ends the application's answer; the caller has been told why, or will be."""


class _Outgoing:
    """One answer on its way out. `complete`: all of it was looked at, as far as it went."""

    def __init__(self, chain: GuardChain, send: Send) -> None:
        self._send = send
        self._scan = ReplyScan(chain.output)
        self._start: Message | None = None
        self._begun = False
        self._body = bytearray()
        self._framer: Framer | None = None
        self._passing = False
        self._blocked: ApiError | None = None
        self._ended = False
        self.complete = True

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        """The application's answer as it may be told. Raises ContentBlocked while nothing has been sent."""
        try:
            await app(scope, receive, self._take)
        except Exception:
            if self._blocked is None:
                raise
        if self._blocked is not None:
            if not self._begun:
                raise self._blocked
            await self._finish(sse(failure_of(self._blocked).body()))

    async def _take(self, message: Message) -> None:
        if self._blocked is not None:
            raise _Stopped
        try:
            if message["type"] == "http.response.start":
                await self._begin(message)
            elif message["type"] == "http.response.body" and not self._passing:
                await self._add(message.get("body", b""), not message.get("more_body", False))
            else:
                await self._send(message)
        except ContentBlocked as blocked:
            self._blocked = blocked
            raise _Stopped from None

    async def _begin(self, message: Message) -> None:
        headers = {name.lower(): value for name, value in message["headers"]}
        if message["status"] >= 400:  # errors are ours, or say what is wrong with the request
            self._passing = True
        elif headers.get(b"content-encoding", b"identity") != b"identity":
            self.complete = False
            raise ContentBlocked("unreadable", "output")
        elif headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            self._framer = Framer()
        else:
            self._start = message
            return
        self._begun = True
        await self._send(message)

    async def _add(self, body: bytes, last: bool) -> None:
        if self._framer is None:
            return await self._add_whole(body, last)
        told = b"".join(self._told(event) for event in self._events(self._framer, body, last))
        if last:
            told += b"".join(map(sse, self._scan.end()))
            await self._finish(told)
        elif told:
            await self._send({"type": "http.response.body", "body": told, "more_body": True})

    def _events(self, framer: Framer, body: bytes, last: bool) -> list[Event]:
        try:
            events = framer.feed(body)
        except EventTooLarge:
            self.complete = False
            raise ContentBlocked("unreadable", "output") from None
        rest = framer.end() if last else None
        return [*events, rest] if rest is not None else events

    def _told(self, event: Event) -> bytes:
        data = event.data
        if data is None or not data.strip():
            return event.raw
        if data.strip() == DONE[6:].strip():
            return b"".join(map(sse, self._scan.end())) + event.raw
        try:
            parsed: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            parsed = None
        if not isinstance(parsed, dict):  # the text of a server that speaks another protocol
            text = self._scan.whole(data.decode(errors="replace"))
            return event.raw if text == data.decode(errors="replace") else event.with_data(text.encode()).raw
        said = cast(dict[str, Any], parsed)
        told = self._scan.event(said)
        if told == [said]:
            return event.raw
        *before, same = told
        return b"".join(map(sse, before)) + event.with_data(orjson.dumps(same)).raw

    async def _add_whole(self, body: bytes, last: bool) -> None:
        self._body += body
        if len(self._body) > _MAX_ANSWER_BYTES:
            self.complete = False
            raise ContentBlocked("unreadable", "output")
        if not last:
            return
        body = bytes(self._body)
        told = self._told_whole(body)
        start, self._begun = self._start or {}, True
        if told is not body:
            kept = [one for one in start["headers"] if one[0].lower() not in (b"content-length", b"etag")]
            start = {**start, "headers": [*kept, (b"content-length", str(len(told)).encode())]}
        await self._send(start)
        await self._finish(told)

    def _told_whole(self, body: bytes) -> bytes:
        try:
            answer: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            text = body.decode(errors="replace")
            told = self._scan.whole(text)
            return body if told == text else told.encode()
        told = self._scan.whole(answer)
        return body if told is answer else orjson.dumps(told)

    async def _finish(self, body: bytes) -> None:
        if not self._ended:
            self._ended = True
            await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _ask_for_plain_bytes(scope: Scope) -> None:
    """What is compressed cannot be looked at."""
    scope["headers"] = [one for one in scope["headers"] if one[0] != b"accept-encoding"]


def _audit(report: Report, caller: Caller, state: MutableMapping[str, Any], *, complete: bool) -> None:
    """Says what was found and done, and what was looked at; never a word of it."""
    for (side, kind, action), count in report.found.items():
        FINDINGS.labels(side, kind, action).inc(count)
    for kind, count in report.unscanned.items():
        UNSCANNED.labels(kind).inc(count)
    if not report.found and not report.unscanned and complete:
        return
    found = {f"{side}.{kind}.{action}": count for (side, kind, action), count in report.found.items()}
    log.info(
        "guard",
        extra={
            "tenant": caller.tenant.id,
            "key": caller.identity.principal,
            "request_id": state.get("request_id", ""),
            "found": found,
            "scanned_chars": dict(report.scanned_chars),
            "unscanned": dict(report.unscanned),
            "output_complete": complete,
        },
    )
