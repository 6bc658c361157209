"""Asks a model server over HTTP: retries with back-off, a circuit breaker, and never beyond the caller's deadline."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from services.runtime.errors import DeadlineExceeded, DependencyFailed, Overloaded

# Servers differ in the status for a text beyond their window: vLLM says 400, llama.cpp 500, and both explain.
_TOO_LARGE_STATUSES, _EXPLAINED_STATUSES = (413, 422), (400, 500)
_TOO_LARGE_WORDS = re.compile(rb"too (long|large|many tokens)|maximum.{0,40}(length|tokens)|exceed", re.IGNORECASE)
_BUSY_STATUSES = (429, 503)
# A kept connection that the server has closed meanwhile shows as a protocol error: the request has not been read.
_NOT_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.RemoteProtocolError)
_ATTEMPTS = 4
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.1, 2.0


class Refused(RuntimeError):
    """The server will not answer this request however often it is asked, with HTTP `status`.

    `too_large`: it may answer a smaller one.
    """

    def __init__(self, message: str, *, status: int, too_large: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.too_large = too_large


class Breaker:
    """Stops asking a server that has failed several times in a row, then lets one request through to try it.

    After Nygard, Release It! (2018), section 5.2: closed, open, half-open.
    """

    def __init__(self, *, failures: int = 5, open_seconds: float = 2, clock: Callable[[], float] = time.monotonic):
        self._most = failures
        self._open_seconds = open_seconds
        self._clock = clock
        self._failures = 0
        self._closed_from = 0.0

    def seconds_until_free(self) -> float:
        """0 when the server may be asked. The answer 0 of an open breaker is for one caller: ask right after it."""
        if self._failures < self._most:
            return 0
        left = self._closed_from - self._clock()
        if left > 0:
            return left
        self._closed_from = self._clock() + self._open_seconds
        return 0

    def succeeded(self) -> None:
        """The server answered, be it that it refuses."""
        self._failures = 0

    def failed(self) -> None:
        """The server did not answer."""
        self._failures += 1
        if self._failures >= self._most:
            self._closed_from = self._clock() + self._open_seconds


@dataclass(frozen=True)
class _Outcome:
    """Of one attempt: an answer or an error, and whether another attempt is worth it.

    A value and not an exception: those would hold on to the frames of all attempts, in cycles.
    """

    answer: Any = None
    error: Exception | None = None
    again: bool = False
    after_seconds: float = 0


@dataclass(frozen=True)
class _Limit:
    """All attempts end at `end` of the monotonic clock, `seconds` from their start; `of_caller`: not of the setting."""

    end: float
    seconds: float
    of_caller: bool


class ModelServer:
    """JSON requests to one server. All requests are reads, so that each may be repeated."""

    def __init__(
        self, url: str, *, name: str, api_key: str, timeout_seconds: float, breaker: Breaker | None = None
    ) -> None:
        """`name` is what errors call the server. `timeout_seconds` is for one request with all its attempts."""
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx2.AsyncClient(headers=headers, timeout=timeout_seconds)
        self._url = url.rstrip("/").removesuffix("/v1")
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._breaker = breaker or Breaker()

    async def post(self, path: str, body: Mapping[str, Any], *, deadline: float | None) -> Any:
        """The answer's JSON; `deadline` is of the monotonic clock.

        Repeated when the server is busy (429, 503) or cannot be connected to. Raises Overloaded, DependencyFailed,
        DeadlineExceeded and Refused.
        """
        seconds = self._timeout_seconds
        if deadline is not None:
            seconds = min(seconds, deadline - time.monotonic())
        limit = _Limit(time.monotonic() + seconds, seconds, of_caller=seconds < self._timeout_seconds)
        outcome = await self._with_retries(path, body, limit)
        if outcome.error is None:
            return outcome.answer
        try:
            raise outcome.error
        finally:
            del outcome

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _with_retries(self, path: str, body: Mapping[str, Any], limit: _Limit) -> _Outcome:
        backing_off = wait_random_exponential(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)

        def wait(state: RetryCallState) -> float:
            return max(backing_off(state), _outcome_of(state).after_seconds)

        attempts = AsyncRetrying(
            retry=retry_if_result(_is_worth_another),
            wait=wait,
            stop=stop_after_attempt(_ATTEMPTS) | stop_before_delay(limit.seconds),
            retry_error_callback=_outcome_of,
        )
        return await attempts(self._attempt, path, body, limit)

    async def _attempt(self, path: str, body: Mapping[str, Any], limit: _Limit) -> _Outcome:
        blocked = self._breaker.seconds_until_free()
        if blocked:
            what = "has failed several times and is left alone for a moment"
            return _Outcome(error=self._lost(what, timedelta(seconds=blocked)))
        try:
            async with asyncio.timeout(limit.end - time.monotonic()):
                response = await self._http.post(self._url + path, json=body)
        except TimeoutError:
            return _Outcome(error=self._out_of_time(limit.of_caller))
        except httpx2.TransportError as error:
            self._breaker.failed()
            return _Outcome(error=self._lost("does not answer"), again=isinstance(error, _NOT_CONNECTED))
        outcome = self._judge(response)
        if outcome is not None:
            return outcome
        try:
            return _Outcome(answer=response.json())
        except ValueError:
            return _Outcome(error=Refused(f"the {self._name} answered something else than JSON", status=200))

    def _judge(self, response: httpx2.Response) -> _Outcome | None:
        """None when it is a good answer."""
        status = response.status_code
        too_large = status in _TOO_LARGE_STATUSES or (
            status in _EXPLAINED_STATUSES and _TOO_LARGE_WORDS.search(response.content[:4096]) is not None
        )
        if status >= 500 and not too_large:
            self._breaker.failed()
        else:
            self._breaker.succeeded()
        if status == 200:
            return None
        if status in _BUSY_STATUSES:
            after = _seconds(response.headers.get("Retry-After", ""))
            retry_after = timedelta(seconds=after or 1)
            busy = Overloaded(f"The {self._name} is busy.", retry_after=retry_after, dependency=self._name)
            return _Outcome(error=busy, again=True, after_seconds=after)
        if status >= 500 and not too_large:
            return _Outcome(error=self._lost("failed"))
        # Not the body: servers repeat the text there.
        message = f"the {self._name} refused a request with HTTP {status}"
        return _Outcome(error=Refused(message, status=status, too_large=too_large))

    def _out_of_time(self, of_caller: bool) -> DeadlineExceeded | DependencyFailed:
        if of_caller:
            # Says little of the server: the caller may have had no more than an instant.
            return DeadlineExceeded(f"The {self._name} did not answer in time.", stage=self._name)
        self._breaker.failed()
        return self._lost("does not answer in time")

    def _lost(self, what: str, retry_after: timedelta | None = None) -> DependencyFailed:
        return DependencyFailed(f"The {self._name} {what}.", dependency=self._name, retry_after=retry_after)


def _seconds(retry_after: str) -> float:
    return float(retry_after) if re.fullmatch(r"\d{1,6}", retry_after) else 0.0


def _outcome_of(state: RetryCallState) -> _Outcome:
    if state.outcome is None:
        raise ValueError("no attempt has ended yet")
    return state.outcome.result()


def _is_worth_another(outcome: _Outcome) -> bool:
    return outcome.again
