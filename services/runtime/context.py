"""Who is asking, and until when: the two facts that travel with a call."""

import time
from contextvars import ContextVar
from dataclasses import dataclass

from services.runtime.errors import Unauthenticated

# Opens every document.
ALL_LABELS = "*"


@dataclass(frozen=True)
class Identity:
    """Who a call is made for.

    `principal` is the key or user within the tenant; `scopes` say what the key may do; `labels` which documents it may
    read besides those that are open to all of the tenant, `*` being every one.
    """

    tenant: str
    principal: str = ""
    scopes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class CallContext:
    """Facts of the current call. `token` is the signed identity as it came, to be passed on unchanged."""

    identity: Identity
    token: str
    deadline: float | None = None

    def seconds_left(self) -> float | None:
        """Time until the caller gives up; None when it waits for ever."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


_current: ContextVar[CallContext | None] = ContextVar("sabueso_call", default=None)


def enter(call: CallContext) -> None:
    """Makes `call` the current one, for this task and those that it starts."""
    _current.set(call)


def current() -> CallContext | None:
    """The current call, or None outside of one."""
    return _current.get()


def identity() -> Identity:
    """Who the current call is made for. Raises Unauthenticated outside of a call."""
    call = _current.get()
    if call is None:
        raise Unauthenticated("The call carries no identity.")
    return call.identity


def tenant() -> str:
    """Tenant of the current call. Raises Unauthenticated outside of a call."""
    return identity().tenant
