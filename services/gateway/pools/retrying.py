"""How many retries all requests together may cause: a struggling pool must not get twice the work."""

_SAVED = 10.0


class RetryBudget:
    """A bucket that each request fills a little; a retry takes one whole token."""

    def __init__(self, part: float) -> None:
        """`part`: retries as a part of requests, over time; some at the start are free."""
        self.part = part
        self._tokens = _SAVED if part else 0.0

    def deposit(self) -> None:
        """A request came."""
        self._tokens = min(_SAVED, self._tokens + self.part)

    def withdraw(self) -> bool:
        """Whether one more retry may be."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
