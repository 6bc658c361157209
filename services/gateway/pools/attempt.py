"""One attempt: a request at one replica, from its first byte to the last of the answer."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from services.gateway.errors import ApiError
from services.gateway.pools import metrics
from services.gateway.pools.connection import ConnectionLost, Reply, Silent
from services.gateway.pools.forwarding import returned
from services.gateway.pools.origin import CannotConnect
from services.gateway.pools.replica import Replica
from services.gateway.streams.asking import Outgoing
from services.gateway.streams.opening import NotOpened, Opened, Outcome, open_answer
from services.runtime.errors import DeadlineExceeded, DependencyFailed

log = logging.getLogger(__name__)

# Of a server that is alive and cannot do it: another may. The last is what some providers say in place of 503.
_ELSEWHERE = {429, 502, 503, 504, 529}
_BUSY = {429: 429, 503: 503, 529: 503}
_RETRY_MOST_SECONDS = 3600


@dataclass(frozen=True)
class Failure:
    """An attempt that brought no answer. `error` is for the client, should there be no other."""

    reason: str
    error: Exception
    retryable: bool
    retry_after_seconds: float = 0


class ReplicaAnswer:
    """An answer of a replica, in the shape that streams are made from."""

    def __init__(self, reply: Reply, on_close: Callable[[Outcome], None]) -> None:
        self._reply = reply
        self._on_close = on_close
        self._headers = returned(reply.headers)

    @property
    def status(self) -> int:
        """HTTP's."""
        return self._reply.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Those that may go on."""
        return self._headers

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body as it comes."""
        try:
            while piece := await self._reply.read():
                yield piece
        except ConnectionLost:
            raise _broken_off() from None
        except Silent:
            raise DeadlineExceeded("The model fell silent in the middle of its answer.", stage="model pool") from None

    async def close(self, outcome: Outcome) -> None:
        """Frees the connection, or drops it in the middle of an answer."""
        self._reply.abandon()
        self._on_close(outcome)


class Attempt:
    """Asks one replica, and keeps the books on it."""

    def __init__(self, replica: Replica, headers: list[tuple[bytes, bytes]], outgoing: Outgoing) -> None:
        self.replica = replica
        # Called once, when the answer that went to the client has ended.
        self.on_end: Callable[[], None] = _nothing
        self._headers = headers
        self._outgoing = outgoing
        self._ended = False
        self._opened = False
        self._status = 0

    async def open(self) -> Opened | Failure:
        """Sends the request, and waits until its answer has begun. Never raises but for a bug and cancellation."""
        replica, timeouts = self.replica, self.replica.configuration.timeouts
        streamed = self._outgoing.streamed
        seconds = timeouts.first_token_seconds if streamed else timeouts.total_seconds
        began = time.monotonic()
        replica.begin(began)
        try:
            async with asyncio.timeout(seconds):
                reply = await replica.origin.post(self._outgoing.path, self._headers, self._outgoing.body)
                found = await self._judged(reply)
        except TimeoutError:
            silent = DeadlineExceeded("The model did not begin to answer in time.", stage="model pool")
            return self._failed(Failure("timeout", silent, retryable=False))
        except CannotConnect:
            return self._failed(Failure("connect", _does_not_answer(), retryable=True))
        except ConnectionLost as lost:
            return self._failed(Failure("lost", _broken_off() if lost.any_byte else _does_not_answer(), retryable=True))
        except BaseException:
            self._end("abandoned")
            raise
        if isinstance(found, Failure):
            return found
        self._opened, self._status = True, reply.status
        loop = asyncio.get_running_loop()
        deadline = math.inf if streamed else loop.time() + seconds - (time.monotonic() - began)
        reply.limit(idle_seconds=timeouts.idle_seconds if streamed else seconds, deadline=deadline)
        if reply.status < 500:
            replica.outlier.succeeded()
        if streamed and reply.status < 400:
            took = time.monotonic() - began
            replica.capacity.first_token(took)
            metrics.FIRST_TOKEN_SECONDS.labels(replica.configuration.name).observe(took)
        return found

    async def _judged(self, reply: Reply) -> Opened | Failure:
        """The answer, if it can go to the client."""
        failure = self._refused(reply)
        if failure is not None:
            reply.abandon()
            return self._failed(failure, counts=reply.status >= 500)
        answer = ReplicaAnswer(reply, self._closed)
        try:
            return await open_answer(answer, self._outgoing)
        except NotOpened as error:
            wait = seconds_of((error.headers or {}).get("Retry-After", ""))
            failure = Failure("not_opened", error, error.retryable, wait)
            return self._failed(failure, counts=error.status_code >= 500)
        except DependencyFailed as error:
            return self._failed(Failure("lost", error, retryable=True))

    def _refused(self, reply: Reply) -> Failure | None:
        status = reply.status
        headers = dict(reply.headers)
        if status == 401:
            facts = {"pool": self.replica.configuration.name, "setting": "SABUESO_MODEL_API_KEY or api_key_file"}
            log.error("the model pool refuses our key", extra=facts)
            locked = DependencyFailed("The model pool does not let the gateway in.", dependency="model pool")
            return Failure("refused", locked, retryable=False)
        if status in _BUSY:
            wait = seconds_of(headers.get(b"retry-after", b"").decode("latin-1"))
            return Failure("busy", busy(_BUSY[status], wait), retryable=True, retry_after_seconds=wait)
        is_json = b"json" in headers.get(b"content-type", b"").lower()
        # Of the successes, those that have no body, or a part of one, are no answers.
        if status in _ELSEWHERE or (status >= 400 and not is_json) or 204 <= status < 400 or status > 599:
            shown = status if 400 <= status <= 599 else 502
            message = f"The model's server failed with {shown} {_phrase(shown)}."
            error = ApiError(shown, message, code="upstream_failed")
            return Failure("failed", error, retryable=status in _ELSEWHERE)
        return None

    def _closed(self, outcome: Outcome) -> None:
        if self._opened:  # before that, `open` knows better why
            self._end("broken" if self._status >= 500 else outcome)

    def _failed(self, failure: Failure, *, counts: bool = True) -> Failure:
        self._end("broken" if counts else "complete", failure.reason)
        return failure

    def _end(self, outcome: Outcome, reason: str = "") -> None:
        if self._ended:
            return
        self._ended = True
        replica = self.replica
        replica.end()
        if outcome == "broken":
            if replica.fail(time.monotonic()):
                log.warning("a model server is left alone for a while", extra={"pool": replica.configuration.name})
        elif not self._opened:
            # Neither good nor bad: it lives, or nobody waited for it.
            replica.outlier.abandoned()
        label = reason or {"complete": "answered", "abandoned": "abandoned", "broken": "broken"}[outcome]
        metrics.ATTEMPTS.labels(replica.configuration.name, replica.name, label).inc()
        self.on_end()


def busy(status: int, wait_seconds: float) -> ApiError:
    """What the client is told where every replica has too much to do."""
    wait = str(max(1, math.ceil(wait_seconds)))
    message = f"The model's servers are busy; try again in {wait} s. This is no limit of yours."
    return ApiError(status, message, code="upstream_overloaded", headers={"Retry-After": wait})


def seconds_of(retry_after: str) -> float:
    """Seconds that a Retry-After header says, as a number or as a date; at least 1, at most an hour."""
    text = retry_after.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return 1.0
    return min(float(_RETRY_MOST_SECONDS), max(1.0, seconds)) if seconds == seconds else 1.0


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "error"


def _does_not_answer() -> DependencyFailed:
    return DependencyFailed("The model pool does not answer.", dependency="model pool")


def _broken_off() -> DependencyFailed:
    return DependencyFailed("The model pool broke off in the middle of its answer.", dependency="model pool")


def _nothing() -> None:
    pass
