"""Tries again what failed for a passing reason, and says in a sentence why something failed for good."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from services.ingestion.parsed import Unreadable
from services.ingestion.worker import PASSING, Retry
from services.runtime.errors import ServiceError

log = logging.getLogger(__name__)

Result = TypeVar("Result")


async def patiently(
    attempt: Callable[[], Awaitable[Result]], retry: Retry, before_next: Callable[[], Awaitable[None]]
) -> Result:
    """The first result of `attempt`, which is called again after a passing failure. Raises what it raises at last."""
    number = 1
    while True:
        try:
            return await attempt()
        except PASSING as error:
            if number >= retry.max_attempts:
                raise
            log.warning("tried again soon", extra={"reason": error.reason, "attempt": number})
            await asyncio.sleep(retry.delay_after(number, error))
            await before_next()
            number += 1


def reason_of(error: Exception) -> str:
    """For the person whose file it is."""
    match error:
        case Unreadable():
            return str(error)
        case ServiceError() if isinstance(error, PASSING):
            return f"{error.message} Given up; run it again."
        case ServiceError():
            return error.message
        case _:
            log.error("unexpected error with a document", exc_info=error)
            return f"Internal error ({type(error).__name__}); the log of the worker tells more."
