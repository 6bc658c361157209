"""GCRA, the generic cell rate algorithm of ITU-T I.371, as its continuous-state leaky bucket.

Levels are whole numbers: one request, or token, is UNIT of them, and a bucket of `most` a minute leaks `most` of them
in a microsecond. So nothing is ever rounded, and a full bucket holds a minute's worth. `admit.lua` says the same.
"""

from dataclasses import dataclass

UNIT = 60_000_000
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """Level as of `at_us`, while the limit was `most`."""

    level: int = 0
    at_us: int = 0
    most: int = 1

    def leaked(self, now_us: int, most: int) -> "Bucket":
        """The bucket at `now_us`. Under another limit the time until it is empty stays, so that nobody is locked out.

        A clock that went back costs the time in between, and no more.
        """
        level = max(0, self.level - max(0, now_us - self.at_us) * self.most)
        return Bucket(level if most == self.most else level * most // self.most, now_us, most)

    def filled(self, units: int) -> "Bucket":
        """With `units` more, or fewer but never below empty. It may run over: then what follows waits longer."""
        return Bucket(max(0, self.level + units * UNIT), self.at_us, self.most)

    def wait_us(self, units: int) -> int:
        """Time until `units` more have room; 0: they have it now."""
        return max(0, -(-(self.level + (units - self.most) * UNIT) // self.most)) if units else 0

    @property
    def used(self) -> int:
        """Units, begun ones counted whole."""
        return -(-self.level // UNIT)

    @property
    def empty_in_us(self) -> int:
        """Time until nothing is used."""
        return -(-self.level // self.most)
