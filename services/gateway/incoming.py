"""What our server knows of a request on its way in and ASGI has no words for: asking for it takes timers and a task."""

from collections.abc import Callable
from typing import Any

from starlette.types import Scope


class Incoming:
    """One request. `complete`: its body has come, all of it. `gone`: its client has left without the answer."""

    __slots__ = ("complete", "gone", "on_gone")

    def __init__(self) -> None:
        self.complete = False
        self.gone = False
        # Called once, should the client leave.
        self.on_gone: Callable[[], None] | None = None

    def leave(self) -> None:
        """The client leaves."""
        if not self.gone:
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()


def incoming_of(scope: Scope) -> Incoming | None:
    """What is known of a request; None where another server than ours has taken it."""
    state: dict[str, Any] = scope.get("state", {})
    return state.get("incoming")
