"""Tokens that a run may spend. What parallel turns may come to cost is held back before they begin."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from services.orchestrator.model import Spent, Usage


@dataclass
class Budget:
    """`whole`: the budget that this one is a part of; what is spent here is spent there too.

    `beside`: what tools and checks spend of it by themselves.
    """

    tokens: int
    whole: "Budget | None" = None
    beside: Sequence[Spent] = ()
    usage: Usage = field(default_factory=Usage, init=False)
    turns: int = field(default=0, init=False)
    _held: int = field(default=0, init=False)

    @property
    def left(self) -> int:
        """Tokens that a further turn may cost; below zero where tools have spent more than there was."""
        beside = sum(one.usage.total + one.held for one in self.beside)
        own = self.tokens - self.usage.total - self._held - beside
        return own if self.whole is None else min(own, self.whole.left)

    def part(self, tokens: int | None) -> "Budget":
        """A budget of at most `tokens` out of this one."""
        return Budget(self.left if tokens is None else min(tokens, self.left), self)

    def spend(self, usage: Usage) -> None:
        """Counts a turn."""
        self.usage += usage
        self.turns += 1
        if self.whole is not None:
            self.whole.spend(usage)

    @contextmanager
    def holding(self, tokens: int) -> Generator[None]:
        """Keeps `tokens` from others while a turn is under way. What is spent within is to be counted after it."""
        self._hold(tokens)
        try:
            yield
        finally:
            self._hold(-tokens)

    def _hold(self, tokens: int) -> None:
        self._held += tokens
        if self.whole is not None:
            self.whole._hold(tokens)
