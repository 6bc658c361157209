"""Waits for one thing after the other, each until a time: `asyncio.timeout` with one timer for all."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Patience:
    """Of one task, one wait at a time; close it.

    A model's turn has hundreds of pieces. A timer for each took a sixth of the loop's time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: the clock, in seconds, by which `wait` knows its end. Needs an event loop."""
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = self._end = math.inf
        self._waiting: asyncio.Task[Any] | None = None
        self._lost = False

    async def wait(self, awaited: Awaitable[T], end: float) -> T:
        """What is awaited; after `end` it is cancelled, and TimeoutError raised."""
        if self._timer is None or end < self._rings_at:
            self._set(end)
        task = asyncio.current_task()
        assert task is not None
        self._end, self._waiting, cancelling = end, task, task.cancelling()
        try:
            return await awaited
        except asyncio.CancelledError:
            if self._lost and task.cancelling() - 1 <= cancelling:
                raise TimeoutError from None
            raise
        finally:
            if self._lost:  # whatever has become of our cancelling
                task.uncancel()
            self._waiting, self._lost = None, False

    def close(self) -> None:
        """Forgets the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, end: float) -> None:
        self.close()
        self._rings_at = end
        self._timer = self._loop.call_later(max(0.0, end - self._now()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._waiting is None:
            return
        if self._now() < self._end:
            self._set(self._end)
            return
        self._lost = True
        self._waiting.cancel()
