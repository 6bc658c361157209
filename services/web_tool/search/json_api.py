"""Talks to a provider's JSON API: bounded answers, and every failure by its cause.

The address is the operator's, so the guard for pages does not apply. Keys travel in headers only: URLs get logged.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx2

from services.runtime.errors import DependencyFailed
from services.web_tool import decoding
from services.web_tool.search.provider import Cause, ProviderFailed

_MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_REST = timedelta(hours=1)  # a monthly quota may be raised before its month is over
_CAUSES = {
    400: Cause.REQUEST, 401: Cause.CONFIGURATION, 402: Cause.QUOTA, 403: Cause.CONFIGURATION, 404: Cause.CONFIGURATION,
    405: Cause.CONFIGURATION, 407: Cause.CONFIGURATION, 408: Cause.ANSWER, 422: Cause.REQUEST, 429: Cause.QUOTA,
    432: Cause.QUOTA, 433: Cause.QUOTA,
}  # fmt: skip
_WORDS = {
    Cause.CONFIGURATION: "is not set up to answer",
    Cause.QUOTA: "answers no more for now: its quota is used up",
    Cause.REQUEST: "does not take this query",
    Cause.UNREACHABLE: "cannot be reached",
    Cause.ANSWER: "fails to answer",
}


class JsonApi:
    """One provider's API."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        proxy: str = "",
        signs: Mapping[str, Cause] | None = None,
        not_json: Cause = Cause.ANSWER,
    ) -> None:
        """`url` is the base address and `proxy` an HTTP proxy, or empty.

        `signs`: words in the body of a refusal that say more than its status. `not_json`: what a success means that is
        no JSON object.
        """
        self.name = name
        self._signs = signs or {}
        self._not_json = not_json
        self._http = httpx2.AsyncClient(
            base_url=url,
            headers={"accept": "application/json", "accept-encoding": "gzip", **(headers or {})},
            proxy=proxy or None,
            timeout=None,
            trust_env=False,
            follow_redirects=False,
        )

    async def get(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a GET. Raises ProviderFailed."""
        return await self._ask(self._http.build_request("GET", path, params=params))

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a POST of JSON. Raises ProviderFailed."""
        return await self._ask(self._http.build_request("POST", path, json=body))

    async def close(self) -> None:
        """Ends connections."""
        await self._http.aclose()

    async def _ask(self, request: httpx2.Request) -> dict[str, Any]:
        try:
            response = await self._http.send(request, stream=True)
            try:
                body = await _read(response)
            finally:
                await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError):
            raise self._failed(Cause.UNREACHABLE) from None
        except (ValueError, DependencyFailed):
            raise self._failed(Cause.ANSWER) from None
        if not response.is_success:
            raise self._refusal(response, body)
        try:
            answer: Any = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._failed(self._not_json)
        return cast(dict[str, Any], answer)

    def _refusal(self, response: httpx2.Response, body: bytes) -> ProviderFailed:
        status = response.status_code
        words = body[:4096].decode(errors="replace")
        cause = next((cause for sign, cause in self._signs.items() if sign in words), None)
        if cause is None:
            unnamed = Cause.REQUEST if 400 <= status < 500 else Cause.ANSWER
            cause = Cause.CONFIGURATION if 300 <= status < 400 else _CAUSES.get(status, unnamed)
        return self._failed(cause, _retry_after(response.headers), f" ({status})")

    def _failed(self, cause: Cause, retry_after: timedelta | None = None, status: str = "") -> ProviderFailed:
        return ProviderFailed(f"{self.name} {_WORDS[cause]}{status}.", self.name, cause, retry_after)


async def _read(response: httpx2.Response) -> bytes:
    """The body. Raises ValueError where it is too long or in an unasked encoding, DependencyFailed where damaged."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip"):
        raise ValueError(encoding)
    # Not httpx's own decoder, which inflates whatever comes.
    decoder = decoding.decoder(encoding)
    body = bytearray()
    async for piece in response.aiter_raw():
        body += decoder.decode(piece, _MAX_ANSWER_BYTES + 1 - len(body))
        if len(body) > _MAX_ANSWER_BYTES:
            raise ValueError("too long")
    return bytes(body)


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Retry-After in seconds or as a date; or of each `X-RateLimit-Reset` the one whose limit is used up (Brave)."""
    text = headers.get("retry-after", "").strip()
    try:
        if text:
            wait = timedelta(seconds=float(text)) if text[0].isdecimal() else parsedate_to_datetime(text) - _now()
        else:
            pairs = zip(
                headers.get("x-ratelimit-remaining", "").split(","),
                headers.get("x-ratelimit-reset", "").split(","),
                strict=False,
            )
            used_up = [float(reset) for remaining, reset in pairs if reset.strip() and float(remaining) <= 0]
            if not used_up:
                return None
            wait = timedelta(seconds=max(used_up))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, timedelta(0)), _MAX_REST)


def _now() -> datetime:
    return datetime.now(UTC)


def record(value: object) -> dict[str, Any]:
    """A JSON object; an empty one where it is something else."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def records(value: object) -> list[dict[str, Any]]:
    """The objects of a JSON array; nothing where it is something else."""
    if not isinstance(value, list):
        return []
    return [cast(dict[str, Any], one) for one in cast(list[object], value) if isinstance(one, dict)]


def text(record: Mapping[str, Any], *names: str) -> str:
    """The first of the named fields that is text and not empty."""
    values = (record.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value.strip()), "")
