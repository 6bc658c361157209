"""Requests of MCP sessions that are being served in this process, to be cancelled by name."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio


class Running:
    """Cancel scopes by session and request id."""

    def __init__(self) -> None:
        self._scopes: dict[str, dict[str, anyio.CancelScope]] = {}

    @contextmanager
    def entered(self, session: str, request_id: str | int) -> Generator[anyio.CancelScope]:
        """What is done in the block ends early when the request is cancelled: see `cancelled_caught`."""
        # Ids are compared as text: some clients send back a number as they got it from a log.
        name, of_session = str(request_id), self._scopes.setdefault(session, {})
        scope = of_session[name] = anyio.CancelScope()
        try:
            with scope:
                yield scope
        finally:
            if of_session.get(name) is scope:  # the same id twice at a time is the client's fault; the later one counts
                del of_session[name]
            if not of_session:
                self._scopes.pop(session, None)

    def cancel(self, session: str, request_id: str | int) -> bool:
        """Ends one request. False when it is not served here."""
        scope = self._scopes.get(session, {}).get(str(request_id))
        if scope is not None:
            scope.cancel()
        return scope is not None

    def cancel_all(self, session: str) -> None:
        """Ends all requests of a session."""
        for scope in list(self._scopes.get(session, {}).values()):
            scope.cancel()

    def __len__(self) -> int:
        return sum(map(len, self._scopes.values()))
