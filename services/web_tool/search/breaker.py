"""Stops asking who does not answer, and tries again after a while (Nygard, Release It!: circuit breaker)."""

import time
from collections.abc import Callable
from enum import IntEnum

_MAX_DOUBLINGS = 5


class State(IntEnum):
    """The states, in the order of the metric."""

    CLOSED = 0
    TRIAL = 1
    OPEN = 2


class Breaker:
    """Opens after some failures in a row, then lets one call at a time try; each failed try doubles the rest.

    Own code, since the known libraries are unmaintained or want exceptions to pass through them, while here a failure
    says by itself how long to rest.
    """

    def __init__(self, *, failures: int, rest_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Opens for `rest_seconds` after `failures` in a row."""
        self._failures_allowed = failures
        self._rest_seconds = rest_seconds
        self._clock = clock
        self._failures = 0
        self._openings = 0
        self._open_until: float | None = None
        self._is_tried = False

    @property
    def state(self) -> State:
        """The state as of now."""
        if self._open_until is None:
            return State.CLOSED
        return State.OPEN if self._clock() < self._open_until else State.TRIAL

    @property
    def rest_seconds(self) -> float:
        """Time until it may be tried again."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self._clock())

    def admits(self) -> bool:
        """Whether a call may be made now. Whoever is admitted says how it ended, by one of the next three."""
        if self.state is State.CLOSED:
            return True
        if self.state is State.OPEN or self._is_tried:
            return False
        self._is_tried = True
        return True

    def succeeded(self) -> None:
        """The call was answered."""
        self._failures, self._openings, self._open_until, self._is_tried = 0, 0, None, False

    def failed(self, rest_seconds: float | None = None, *, at_once: bool = False) -> None:
        """The call failed. `rest_seconds`: time that was asked for; `at_once`: no second failure is waited for."""
        self._failures += 1
        self._is_tried = False
        if self._open_until is None and self._failures < self._failures_allowed and not at_once:
            return
        usual = self._rest_seconds * 2 ** min(self._openings, _MAX_DOUBLINGS)
        self._openings += 1
        self._open_until = self._clock() + (usual if rest_seconds is None else max(rest_seconds, 1.0))

    def left(self) -> None:
        """The call ended without saying anything of the provider, such as when the caller hung up."""
        self._is_tried = False
