"""Asks the providers in order, under one time limit, until one answers."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta

from services.runtime import context
from services.runtime.errors import DeadlineExceeded, DependencyFailed, ServiceError
from services.web_tool.search.breaker import Breaker
from services.web_tool.search.metrics import PROVIDER_CALLS, PROVIDER_STATE
from services.web_tool.search.provider import Cause, Found, Provider, ProviderFailed, Query

log = logging.getLogger(__name__)


class Fallback:
    """Providers in order of preference, each with a breaker."""

    def __init__(self, providers: Sequence[Provider], breakers: Mapping[str, Breaker], timeout_seconds: float) -> None:
        """`breakers` by provider; `timeout_seconds` for all of them together."""
        self._providers = providers
        self._breakers = breakers
        self._timeout_seconds = timeout_seconds

    @property
    def names(self) -> Sequence[str]:
        """The providers in the order in which they are asked."""
        return [provider.name for provider in self._providers]

    async def search(self, query: Query) -> Found:
        """What the first provider finds that answers.

        No results are an answer; no results from engines of which some are silent are none, if another provider is
        left. Raises DependencyFailed, with the time after which it may work again, and DeadlineExceeded.
        """
        if not self._providers:
            raise DependencyFailed("No web search is configured (SABUESO_SEARCH_PROVIDERS).", dependency="search")
        ends = asyncio.get_running_loop().time() + self._seconds()
        failures: list[ServiceError] = []
        partial: Found | None = None
        for place, provider in enumerate(self._providers):
            left = ends - asyncio.get_running_loop().time()
            if left <= 0:
                break
            try:
                found = await self._ask(provider, query, left / (len(self._providers) - place))
            except (DependencyFailed, DeadlineExceeded) as failed:
                failures.append(failed)
                continue
            if found.results or not found.unresponsive_engines:
                return found
            partial = partial or found
        if partial is not None:
            return partial
        raise _summary(failures)

    async def close(self) -> None:
        """Ends all connections."""
        for provider in self._providers:
            await provider.close()

    def _seconds(self) -> float:
        call = context.current()
        left = call.seconds_left() if call else None
        return self._timeout_seconds if left is None else min(left, self._timeout_seconds)

    async def _ask(self, provider: Provider, query: Query, seconds: float) -> Found:
        breaker = self._breakers[provider.name]
        if not breaker.admits():
            PROVIDER_CALLS.labels(provider.name, "resting").inc()
            rest = timedelta(seconds=max(1.0, breaker.rest_seconds))
            raise DependencyFailed(f"{provider.name} rests after failures.", retry_after=rest, dependency=provider.name)
        outcome = "left"
        try:
            async with asyncio.timeout(seconds):
                found = await provider.search(query)
            breaker.succeeded()
            outcome = "results" if found.results else "partial" if found.unresponsive_engines else "empty"
            return found
        except TimeoutError:
            outcome = "timeout"
            self._timed_out(breaker, seconds)
            message = f"{provider.name} did not answer within {seconds:.2g} s."
            raise DeadlineExceeded(message, stage=provider.name) from None
        except ProviderFailed as failed:
            outcome = failed.cause.value
            _count_failure(breaker, failed)
            raise
        finally:
            if outcome == "left":
                breaker.left()
            PROVIDER_CALLS.labels(provider.name, outcome).inc()
            PROVIDER_STATE.labels(provider.name).set(breaker.state)

    def _timed_out(self, breaker: Breaker, seconds: float) -> None:
        # A caller in a hurry must not close the provider to others.
        fair = self._timeout_seconds / len(self._providers)
        if seconds >= 0.9 * fair:
            breaker.failed()
        else:
            breaker.left()


def _count_failure(breaker: Breaker, failed: ProviderFailed) -> None:
    if failed.cause is Cause.REQUEST:
        breaker.succeeded()
        return
    rest = failed.retry_after.total_seconds() if failed.retry_after else None
    breaker.failed(rest, at_once=failed.cause in (Cause.CONFIGURATION, Cause.QUOTA))
    level = logging.ERROR if failed.cause is Cause.CONFIGURATION else logging.WARNING
    log.log(
        level,
        "a search provider failed",
        extra={"provider": failed.metadata["dependency"], "cause": failed.cause.value, "reason": failed.message},
    )


def _summary(failures: Sequence[ServiceError]) -> ServiceError:
    if len(failures) == 1:
        return failures[0]
    if failures and all(isinstance(failed, DeadlineExceeded) for failed in failures):
        return DeadlineExceeded("No search provider answered in time.", stage="search")
    if not failures:
        return DeadlineExceeded("No time was left for the web search.", stage="search")
    waits = [failed.retry_after for failed in failures if failed.retry_after is not None]
    reasons = " ".join(failed.message for failed in failures)
    return DependencyFailed(
        f"No search provider answers. {reasons}", retry_after=min(waits, default=None), dependency="search"
    )
