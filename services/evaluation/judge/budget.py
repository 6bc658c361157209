"""How much may be asked of a judge: calls and tokens, which cost money or the GPU of those who answer."""

from services.evaluation.judge.judge import OverBudget


class Budget:
    """Counts down, for one judge or several that share it. Tokens are set aside before a call and settled after."""

    def __init__(self, max_calls: int | None = None, max_tokens: int | None = None) -> None:
        """None: no bound."""
        self._max_calls = max_calls
        self._max_tokens = max_tokens
        self.calls = 0
        # Used, and set aside by calls under way.
        self.tokens = 0

    def reserve(self, tokens: int) -> None:
        """Takes one call and `tokens`, the most that it may use. Raises OverBudget, and then takes nothing."""
        if self._max_calls is not None and self.calls >= self._max_calls:
            raise OverBudget(f"the judge's {self._max_calls} calls are used up")
        if self._max_tokens is not None and self.tokens + tokens > self._max_tokens:
            raise OverBudget(f"the judge's {self._max_tokens} tokens are used up")
        self.calls += 1
        self.tokens += tokens

    def settle(self, reserved: int, used: int) -> None:
        """Gives back what a call did not use."""
        self.tokens += used - reserved
