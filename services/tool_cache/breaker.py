"""Leaves a dependency alone for a while after it failed, so that callers need not wait for it each time."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Open(Exception):
    """The dependency has failed just now, and is not asked."""


class Breaker:
    """After a failure nobody asks for `pause_seconds`; then one caller does, and the outcome decides for all."""

    def __init__(self, pause_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._pause = pause_seconds
        self._clock = clock
        self._until: float | None = None
        self._probing = False

    @contextmanager
    def asking(self, failures: tuple[type[Exception], ...], *, insist: bool = False) -> Generator[None]:
        """Around one question. Raises Open instead of asking; `insist` asks in any case.

        `failures` are the exceptions that speak against the dependency; others, and cancellation, say nothing.
        """
        probe = self._until is not None
        if probe and not insist:
            if self._probing or self._clock() < (self._until or 0):
                raise Open
            self._probing = True
        try:
            yield
        except failures:
            self._until = self._clock() + self._pause
            raise
        else:
            self._until = None
        finally:
            if probe and not insist:
                self._probing = False
