"""How many requests a replica gets at once: fewer while it drowns, more again when it is calm."""

from services.gateway.pools.configuration import Shedding
from services.gateway.pools.load import Load

_DECREASE, _INCREASE = 0.8, 0.05
_LEAST_PART = 16
# Weight of the newest time to a first token, and how the best one is forgotten: prompts and models change.
_NEWEST, _FORGET = 0.1, 1.001
_LEAST_SAMPLES = 20


class Capacity:
    """Additive increase, multiplicative decrease, by the server's own queue and by the times of its first tokens."""

    def __init__(self, most: int, shedding: Shedding) -> None:
        self.most = most
        self.shedding = shedding
        self.now = most
        self._first_token = 0.0
        self._best = float("inf")
        self._samples = 0

    def configure(self, most: int, shedding: Shedding) -> None:
        """Other limits from now on; a replica that had all that it may have gets all that it may now."""
        self.now = most if self.now == self.most else min(self.now, most)
        self.most, self.shedding = most, shedding

    def first_token(self, seconds: float) -> None:
        """A stream's first content came after so long."""
        self._samples += 1
        part = max(_NEWEST, 1 / self._samples)
        self._first_token += part * (seconds - self._first_token)
        self._best = min(self._best * _FORGET, self._first_token)

    def adapt(self, load: Load | None, in_flight: int) -> bool:
        """Once an interval. True when it grew."""
        before = self.now
        if self._drowning(load):
            least = max(1, self.most // _LEAST_PART)
            # From what is there, not from what might be: else it takes effect many intervals later.
            self.now = max(least, min(before, int(_DECREASE * min(before, max(in_flight, least)))))
        else:
            self.now = min(self.most, before + max(1, int(_INCREASE * self.most)))
        return self.now > before

    def _drowning(self, load: Load | None) -> bool:
        rules = self.shedding
        if load is not None and rules.waiting and load.waiting > rules.waiting:
            return True
        if not rules.first_token_multiple or self._samples < _LEAST_SAMPLES:
            return False
        # A server that says that nobody waits is slow for another reason: long prompts.
        if load is not None and not load.waiting:
            return False
        return self._first_token > max(rules.first_token_floor_seconds, rules.first_token_multiple * self._best)
