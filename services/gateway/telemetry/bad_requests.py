"""HTTP/1.1 as uvicorn speaks it, with bounds, and errors in the form of all others: OpenAI's, with a request id."""

import asyncio
import json
import logging
import uuid
from http import HTTPStatus
from typing import Any, cast

import httptools
from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from services.gateway.incoming import Incoming, incoming_of
from services.gateway.sending import Sending

log = logging.getLogger("sabueso.access")

# Of a request line with its headers, of trailers, of what is not content between chunks; about as much, since it is
# counted as it comes.
_MOST_HEAD_BYTES = 64 * 1024
# What says where a body ends.
_FRAMING = (b"content-length", b"transfer-encoding")


class Http(HttpToolsProtocol):
    """uvicorn's protocol, whose own 400 is a bare line of text, and whose heads may be as long and slow as they like.

    Requests to change the protocol (`Upgrade`) are answered as if they had not asked, as RFC 9110 §7.8 allows.
    """

    # Time for the rest of a head that has begun. Until it begins a connection counts as idle, a new one too.
    head_seconds: float = 30

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._bytes_without_content = 0
        self._repeats_head = False
        self._late: asyncio.TimerHandle | None = None
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._expect_nothing()
        if self._is_busy and (incoming := incoming_of(cast(Scope, self.cycle.scope))) is not None:
            incoming.leave()

    def data_received(self, data: bytes) -> None:
        """As asyncio's."""
        self._unset_keepalive_if_required()
        self._bytes_without_content += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            return self.send_400_response("Invalid HTTP request received.")
        if self._bytes_without_content > _MOST_HEAD_BYTES:
            most = f"{_MOST_HEAD_BYTES // 1024} KiB"
            return self._refuse(431, f"The request's headers are larger than {most}.", "headers_too_large")
        if not self._is_busy and self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self._give_up)

    def send_400_response(self, msg: str) -> None:
        """Answers and closes."""
        self._refuse(400, msg, "invalid_http")

    # What the parser finds

    def on_message_begin(self) -> None:
        if not self._repeats_head:
            super().on_message_begin()
            self._incoming = Incoming()
            cast(dict[str, Any], self.scope)["state"]["incoming"] = self._incoming

    def on_url(self, url: bytes) -> None:
        if not self._repeats_head:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._repeats_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._bytes_without_content = 0
        if not self._repeats_head:
            self._expect_nothing()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes_without_content = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        # Of a request to change the protocol the parser takes the body for the new protocol's.
        if not self.parser.should_upgrade():
            self._bytes_without_content = 0
            super().on_message_complete()
            self._incoming.complete = True
            if not self.pipeline:
                self.flow.resume_reading()  # nothing more is to be held back, and a hang-up to be heard

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        cast(Any, cycle).send = Sending(cycle, self.loop).send
        super()._start_asgi_task(cycle, app)

    @property
    def _is_busy(self) -> bool:
        cycle: Any = cast(Any, self.cycle)
        return cycle is not None and not cycle.response_complete

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                return self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._read_on_as_http()

    def _read_on_as_http(self) -> None:
        """Begins anew with a head that says the same of the body, and nothing of another protocol."""
        framing = [b"%b: %b\r\n" % (name, value) for name, value in self.headers if name in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        self._repeats_head = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        finally:
            self._repeats_head = False

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        message = f"The request's headers were not sent completely within {self.head_seconds:g} s."
        self._refuse(408, message, "request_timeout")

    def _refuse(self, status: int, message: str, code: str) -> None:
        if self.transport.is_closing():
            return
        if not (self._is_busy and self.cycle.response_started):  # else it would stand in the middle of the answer
            request_id = uuid.uuid4().hex
            error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
            body = json.dumps({"error": error}).encode()
            self.transport.write(
                b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\nconnection: close\r\n"
                b"x-content-type-options: nosniff\r\nx-request-id: %b\r\ncontent-length: %d\r\n\r\n%b"
                % (status, HTTPStatus(status).phrase.encode(), request_id.encode(), len(body), body)
            )
            log.info("not HTTP", extra={"status": status, "request_id": request_id})
        self.transport.close()
