"""What services said a moment ago, by tenant, so that not every answer asks them again."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from services.runtime.errors import DeadlineExceeded, ServiceError

Value = TypeVar("Value")

LOOKUP_TIMEOUT_SECONDS = 2
_MAX_TENANTS = 1_000
# A service that did not answer is asked again after this time; until then its tool is missing at no cost.
_RETRY_SECONDS = 3


class Recent(Generic[Value]):
    """Values by tenant that are asked for again when they are older than `ttl_seconds`, failures sooner."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        self._known: OrderedDict[str, tuple[float, Value | ServiceError]] = OrderedDict()

    async def get(self, tenant: str, load: Callable[[float], Awaitable[Value]], *, fresh: bool = False) -> Value:
        """The value of `tenant`; `fresh` asks in any case. Raises what `load` raises, as ServiceError."""
        until, value = self._known.get(tenant, (0.0, None))
        if fresh or value is None or until < time.monotonic():
            try:
                async with asyncio.timeout(LOOKUP_TIMEOUT_SECONDS):
                    value, ttl = await load(LOOKUP_TIMEOUT_SECONDS), self._ttl
            except TimeoutError:
                value, ttl = DeadlineExceeded("no answer in time", stage="toolbox"), _RETRY_SECONDS
            except ServiceError as error:
                value, ttl = error, _RETRY_SECONDS
            self._known[tenant] = time.monotonic() + ttl, value
            if len(self._known) > _MAX_TENANTS:
                self._known.popitem(last=False)
        if isinstance(value, ServiceError):
            raise value.with_traceback(None)  # it is raised again and again: the trail must not grow
        return value
