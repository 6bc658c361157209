"""What judging live traffic may cost: calls and tokens, an hour and a day, and of these a share for each tenant."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from services.evaluation.judge.budget import Budget
from services.evaluation.judge.judge import OverBudget

HOUR, DAY = 3600, 86_400
_NAMES = {HOUR: "this hour", DAY: "today"}


@dataclass(frozen=True)
class Bounds:
    """Of one window of `seconds`."""

    seconds: int
    calls: int
    tokens: int


@dataclass
class _Window:
    """What was used since the window began, by tenant."""

    bounds: Bounds
    number: int = -1
    calls: Counter[str] = field(default_factory=Counter[str])
    tokens: Counter[str] = field(default_factory=Counter[str])
    # Calls under way that began in this window, by tenant and tokens set aside.
    begun: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    def turn(self, now: float) -> None:
        """Begins anew when the clock has come to the next window (of UTC)."""
        if (number := int(now // self.bounds.seconds)) != self.number:
            self.number = number
            self.calls.clear()
            self.tokens.clear()
            self.begun.clear()


class TrafficBudget(Budget):
    """A Budget that fills up again. Whom a call is for is asked of `tenant` at the time of the call."""

    def __init__(
        self,
        bounds: tuple[Bounds, ...],
        tenant: Callable[[], str],
        *,
        share: float = 0.5,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`share`: of each bound, for one tenant. `now`: seconds since 1970."""
        super().__init__()
        self._windows = [_Window(one) for one in bounds]
        self._tenant = tenant
        self._share = share
        self._now = now

    def reserve(self, tokens: int) -> None:
        """See Budget."""
        tenant, now = self._tenant(), self._now()
        for window in self._windows:
            window.turn(now)
            when = _NAMES.get(window.bounds.seconds, f"in {window.bounds.seconds} s")
            self._check("calls", window.calls, window.bounds.calls, 1, tenant, when)
            self._check("tokens", window.tokens, window.bounds.tokens, tokens, tenant, when)
        for window in self._windows:
            window.calls[tenant] += 1
            window.tokens[tenant] += tokens
            window.begun[tenant, tokens] += 1
        super().reserve(tokens)

    def settle(self, reserved: int, used: int) -> None:
        """See Budget. A call that ends in a later window gives nothing back there."""
        tenant, now = self._tenant(), self._now()
        for window in self._windows:
            window.turn(now)
            if window.begun[tenant, reserved] > 0:
                window.begun[tenant, reserved] -= 1
                window.tokens[tenant] += used - reserved
        super().settle(reserved, used)

    def _check(self, unit: str, used: Counter[str], most: int, more: int, tenant: str, when: str) -> None:
        if used.total() + more > most:
            raise OverBudget(f"the judge's {most} {unit} for live traffic {when} are used up")
        if used[tenant] + more > most * self._share:
            raise OverBudget(f"the tenant's share of the judge's {most} {unit} {when} is used up")
