"""Searches the public web through SearXNG."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import httpx2

from services.runtime.errors import DeadlineExceeded, DependencyFailed, NotPermitted, ServiceError
from services.web_tool.policy import Policy

log = logging.getLogger(__name__)
_MAX_FIELD_CHARS = 2000


@dataclass(frozen=True)
class Result:
    """One result; all of it is untrusted text."""

    url: str
    title: str
    snippet: str
    published: str


@dataclass(frozen=True)
class Found:
    """Results in the engine's order. `unresponsive_engines` is not empty when they are partial."""

    results: Sequence[Result]
    unresponsive_engines: Sequence[str]


class Engine(Protocol):
    """A web search."""

    async def search(self, query: str, language: str) -> Found:
        """Raises DependencyFailed and DeadlineExceeded."""
        ...

    async def close(self) -> None:
        """Ends connections."""
        ...


class SearXNG:
    """SearXNG's JSON API. Its address is ours, so the guard for pages does not apply to it."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        """`url` is the base address; its instance must allow the `json` format."""
        self._timeout_seconds = timeout_seconds
        self._http = httpx2.AsyncClient(
            base_url=url, timeout=httpx2.Timeout(timeout_seconds, connect=2), trust_env=False, follow_redirects=False
        )

    async def search(self, query: str, language: str) -> Found:
        """Results for `query`; `language` is ISO 639-1 or empty."""
        params = {"q": query, "format": "json", **({"language": language} if language else {})}
        try:
            response = await self._http.get("/search", params=params)
            answer: Any = response.json() if response.status_code == 200 else None
        except httpx2.TimeoutException:
            raise DeadlineExceeded(f"timeout after {self._timeout_seconds:g}s", stage="searxng") from None
        except (httpx2.HTTPError, ValueError):
            raise DependencyFailed("The web search does not answer.", dependency="searxng") from None
        if not isinstance(answer, dict):
            log.error(
                "SearXNG refused; enable `json` under search.formats in its settings.yml",
                extra={"status_code": response.status_code},
            )
            raise DependencyFailed("The web search is not set up to answer.", dependency="searxng")
        return _found(cast(dict[str, Any], answer))

    async def close(self) -> None:
        """Ends connections."""
        await self._http.aclose()


class NoEngine:
    """Stands where no search is configured: refuses, and names the setting."""

    async def search(self, query: str, language: str) -> Found:
        """Always raises DependencyFailed."""
        raise DependencyFailed("No web search is configured (SABUESO_SEARXNG_URL).", dependency="searxng")

    async def close(self) -> None:
        """Nothing to end."""


def permitted(results: Sequence[Result], policy: Policy, count: int) -> list[Result]:
    """The first `count` results whose pages the policy would let us name."""
    kept: list[Result] = []
    for result in results:
        try:
            policy.check_url(result.url)
        except NotPermitted as refused:
            log.debug("a result was dropped", extra={"rule": refused.metadata.get("rule")})
        except ServiceError:
            log.debug("a result has no usable URL")
        else:
            kept.append(result)
    return kept[:count]


def _found(answer: dict[str, Any]) -> Found:
    entries = [cast(dict[str, Any], entry) for entry in answer.get("results", ()) if isinstance(entry, dict)]
    fields = ("url", "title", "content", "publishedDate")
    results = [Result(*(str(entry.get(field) or "")[:_MAX_FIELD_CHARS] for field in fields)) for entry in entries]
    # Each entry is [engine, reason], or just the engine in old versions.
    silent: list[Any] = answer.get("unresponsive_engines") or []
    return Found(results, [str(entry[0] if isinstance(entry, list) else entry) for entry in silent])  # pyright: ignore[reportUnknownArgumentType]
