"""When a replica is left alone because of how its answers end, and how it comes back."""

from dataclasses import dataclass

_LONGEST = 10


@dataclass
class Outlier:
    """State of one replica, on a clock that the caller reads.

    Closed: it is asked. After `failures` failures in a row: ejected, for longer each time. When that time is over one
    request tries it (half-open); its success closes the case, its failure ejects again.
    """

    failures: int
    ejection_seconds: float
    in_a_row: int = 0
    ejections: int = 0
    ejected_until: float = 0.0
    trial_since: float | None = None

    def ejected(self, now: float) -> bool:
        """Whether it should not be asked, but for the one trial."""
        if not self.ejections:
            return False
        if now < self.ejected_until:
            return True
        # A trial that nobody hears of again must not keep it out for ever.
        return self.trial_since is not None and now - self.trial_since < self._duration()

    def chosen(self, now: float) -> None:
        """A request goes to it: the trial, if it is on probation."""
        if self.ejections and not self.ejected(now):
            self.trial_since = now

    def succeeded(self) -> None:
        """An answer came."""
        self.in_a_row = self.ejections = 0
        self.ejected_until = 0.0
        self.trial_since = None

    def abandoned(self) -> None:
        """The client left before it was known."""
        self.trial_since = None

    def failed(self, now: float, *, may_eject: bool = True) -> bool:
        """It failed. True when that ejects it; never where too many others are out already."""
        self.in_a_row += 1
        trial, self.trial_since = self.trial_since is not None, None
        if not may_eject or now < self.ejected_until or (not trial and self.in_a_row < self.failures):
            return False
        self.ejections += 1
        self.ejected_until = now + self._duration()
        return True

    def _duration(self) -> float:
        return self.ejection_seconds * min(_LONGEST, 2 ** max(0, self.ejections - 1))
