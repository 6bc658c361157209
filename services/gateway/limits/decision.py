"""What a limiter is asked, and what it says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from services.gateway.limits.plan import TOKEN_KINDS, Limit, Scope


class Standing(NamedTuple):
    """How one limit stands. `wait_seconds` above 0: it refuses, and would pass the same request after that time."""

    limit: Limit
    used: int
    reset_seconds: float
    wait_seconds: float = 0.0

    @property
    def remaining(self) -> int:
        """What is left; 0 also where more was spent than the limit allows."""
        return max(0, self.limit.most - self.used)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a running request has taken, to be settled when it ends.

    `taken` says how much of each limit, in their order, on `day` (days since 1970 by the store's clock); without it
    nothing was reserved, and what is spent is of today. `local`: counted by this process alone; then `owed` are the
    limits that the store is to be told of later, and `reserved` the tokens where nobody knows what was spent.
    """

    tenant: str
    lease: str
    limits: tuple[Limit, ...]
    taken: tuple[int, ...] = ()
    day: int | None = None
    local: bool = False
    owed: tuple[Limit, ...] = ()
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens that a request has cost in the end. `of_model`: to the limits of the model that it named.

    `as_reserved`: nobody knows what it cost, and what was reserved stays charged.
    """

    tokens: int = 0
    of_model: int = 0
    as_reserved: bool = False

    def to(self, scope: Scope) -> int:
        """What a limit of that scope is charged."""
        return self.of_model if scope == "model" else self.tokens


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request may go on, and how its limits stand afterwards. No receipt: it was refused."""

    standings: tuple[Standing, ...]
    receipt: Receipt | None

    @property
    def refused_by(self) -> Standing | None:
        """The limit that must be waited for longest; None when the request was admitted."""
        refusing = [one for one in self.standings if one.wait_seconds > 0]
        return max(refusing, key=lambda one: one.wait_seconds, default=None)


class Limiter(Protocol):
    """Counts requests, tokens and requests at the same time."""

    @property
    def degraded(self) -> bool:
        """Whether it counts less exactly than it should, for want of its store."""
        ...

    async def admit(
        self, tenant: str, plan: tuple[Limit, ...], lease: str, tokens: int = 0, least: int | None = None
    ) -> Decision:
        """Takes one request, its reservation of `tokens` and a lease, of every limit; or refuses and takes nothing.

        Where a limit has less left than `tokens`, but `least` or more (None: all of them), it takes what is left.
        Without tokens the limits on tokens are only looked at. Raises StoreLost, or LimiterUnavailable where a lost
        store is to close the door.
        """
        ...

    async def settle(self, receipt: Receipt, spent: Spent) -> None:
        """Charges what was spent in place of what was reserved, and gives the lease back.

        A second time changes nothing. Raises StoreLost.
        """
        ...

    async def look(self, tenant: str, plan: tuple[Limit, ...]) -> tuple[Standing, ...]:
        """How limits stand, taking nothing. Raises StoreLost."""
        ...


class StoreLost(Exception):
    """The shared store does not answer."""


class LimiterUnavailable(Exception):
    """The store is lost, and a limit of the request's says that nobody passes without it."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit.name)
        self.limit = limit


def differences(receipt: Receipt, spent: Spent) -> Iterator[tuple[Limit, int]]:
    """Each limit, and the tokens still to be charged to it at the end of a request; negative: to be given back."""
    taken = receipt.taken or (0,) * len(receipt.limits)
    for limit, reserved in zip(receipt.limits, taken, strict=True):
        counts = limit.kind in TOKEN_KINDS and not spent.as_reserved
        yield limit, spent.to(limit.scope) - reserved if counts else 0
