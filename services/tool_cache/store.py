"""Where results are remembered: the interface of all stores."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from services.tool_cache.keys import CallKey


@dataclass(frozen=True)
class Lookup:
    """What a store knows of one call.

    `value` is None on a miss; `stale`: there was one, but its sources have changed since. `snapshot` is the number of
    the tenant's last invalidation, to be given back with the result. `token`: the call is leased to whoever asked.
    """

    snapshot: int
    value: bytes | None = None
    age_seconds: float = 0
    stale: bool = False
    token: str = ""


@dataclass(frozen=True)
class Result:
    """A result to remember for `ttl_ms`, 0 being not at all. A `token` that is right ends its lease in any case.

    It is not stored when one of its `sources`, or its tool, was invalidated after `snapshot`; 0 is not checked. Nor,
    if `only_leased`, when its lease is not held any more.
    """

    key: CallKey
    value: bytes
    ttl_ms: int
    sources: tuple[str, ...] = ()
    snapshot: int = 0
    token: str = ""
    only_leased: bool = False


@dataclass(frozen=True)
class Lease:
    """The right to make the result of a call, until it is put, released, or its time is over."""

    key: CallKey
    token: str


class Outcome(Enum):
    """What became of a result that was put."""

    STORED = "stored"
    NO_TTL = "no_ttl"
    TOO_LARGE = "too_large"
    OUTDATED = "outdated"
    FULL = "full"


class Store(Protocol):
    """Remembers results. The keys of one batch belong to one tenant.

    All methods raise DependencyFailed when the store does not answer.
    """

    async def open(self) -> None:
        """Makes ready; does not wait for the store to answer."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...

    async def get(self, keys: Sequence[CallKey], *, lease_ms: int = 0) -> list[Lookup]:
        """What is known of each call, in order. With `lease_ms`, misses that nobody makes yet are leased."""
        ...

    async def put(self, results: Sequence[Result]) -> list[Outcome]:
        """What became of each, in order."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Ends leases whose tokens are right."""
        ...

    async def invalidate(self, tenant: str, tool: str, sources: Sequence[str]) -> None:
        """Forgets what a tool, if named, has made, and what was made from `sources`; see generations.py."""
        ...
