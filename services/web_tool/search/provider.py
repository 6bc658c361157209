"""What a search provider is, and the ways in which one fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from services.runtime.errors import DependencyFailed


@dataclass(frozen=True)
class Query:
    """What is asked. `text` has 1 to 400 characters; `language` is ISO 639-1 or empty; `count` is 1 to 20."""

    text: str
    language: str = ""
    count: int = 5


@dataclass(frozen=True)
class Result:
    """One result; all of it is untrusted text. `published` as the provider writes it, until it is tidied."""

    url: str
    title: str
    snippet: str
    published: str


@dataclass(frozen=True)
class Found:
    """Results in the provider's order. `unresponsive_engines` is not empty when they are partial."""

    provider: str
    results: Sequence[Result]
    unresponsive_engines: Sequence[str] = ()


class Cause(StrEnum):
    """Why a provider failed; decides how long it rests."""

    CONFIGURATION = "configuration"  # key refused, format not enabled, wrong address
    QUOTA = "quota"  # too many requests, or the plan is used up
    REQUEST = "request"  # this one query is refused; says nothing of the provider's health
    UNREACHABLE = "unreachable"
    ANSWER = "answer"  # 5xx, or what comes is not its API


class ProviderFailed(DependencyFailed):
    """A provider did not answer a query; metadata `dependency` names it and `cause` says why."""

    def __init__(self, message: str, provider: str, cause: Cause, retry_after: timedelta | None = None) -> None:
        super().__init__(message, retry_after=retry_after, dependency=provider, cause=cause)
        self.cause = cause


class Provider(Protocol):
    """A web search. It sets no time limit of its own: its caller does, by cancelling."""

    name: str

    async def search(self, query: Query) -> Found:
        """Raises ProviderFailed."""
        ...

    async def close(self) -> None:
        """Ends connections."""
        ...
