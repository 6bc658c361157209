"""What the demo world must contain: how many contracts of which kind, and which special conditions recur.

The generator draws within these bounds. The product knows nothing of them; it has to find the answers in the data.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

SEED = 4
# The world's last day: what is due later is pending. Fixed, so that the data do not depend on the clock.
AS_OF = date(2026, 6, 30)
DRAFTS = 7

_SMALL = (3_000_00, 96_000_00)
_LARGE = (100_500_00, 420_000_00)


@dataclass(frozen=True)
class Lot:
    """`count` contracts of one year and region with amounts from `low` to `high` cents, adding up to `total` if given.

    The first ones are signed on `days`, the rest on a weekday from 2 January to 30 December or `last_day`.
    """

    year: int
    region: str
    count: int
    low: int
    high: int
    total: int | None = None
    days: tuple[date, ...] = ()
    last_day: date | None = None


def _lots(year: int, last_day: date | None = None, **counts: tuple[int, int]) -> list[Lot]:
    return [
        Lot(year, region, count, *bounds, last_day=last_day)
        for region, (large, small) in counts.items()
        for count, bounds in ((large, _LARGE), (small, _SMALL))
    ]


LOTS = (
    *_lots(2022, EU=(10, 18), UK=(2, 3), NA=(3, 3), LATAM=(2, 4), APAC=(1, 2)),
    *_lots(2023, EU=(12, 18), UK=(2, 4), NA=(3, 4), LATAM=(2, 4), APAC=(1, 3)),
    *_lots(2024, EU=(12, 20), UK=(3, 4), NA=(3, 4), LATAM=(2, 4), APAC=(2, 3)),
    Lot(2024, "EU", 3, *_LARGE, days=3 * (date(2024, 12, 31),)),
    Lot(2025, "EU", 47, *_LARGE, total=8_300_000_00, days=(date(2025, 1, 1), date(2025, 12, 31))),
    Lot(2025, "EU", 1, 100_000_00, 100_000_00),  # "more than 100,000" leaves it out
    *_lots(2025, EU=(0, 28), UK=(6, 5), NA=(6, 5), LATAM=(4, 5), APAC=(3, 4)),
    Lot(2026, "EU", 2, *_LARGE, days=2 * (date(2026, 1, 1),)),
    *_lots(2026, AS_OF, EU=(7, 12), UK=(2, 3), NA=(2, 3), LATAM=(1, 3), APAC=(1, 2)),
)

_BOTH = ("cpi_capped", "penalty_2")
_CPI = ("cpi_capped",)
_PENALTY = ("penalty_2",)

# The documents of the flagship question's contracts: 18, of which 13 have the penalty and 12 the capped revision.
HEADLINE_CONDITIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "es": (("escrow", *_BOTH), _BOTH, _BOTH, _BOTH, _BOTH, _CPI, _PENALTY, _PENALTY, ("exclusivity",)),
    "en": (_BOTH, _BOTH, _BOTH, ("change_of_control", *_BOTH), _CPI, _CPI, _PENALTY, _PENALTY, ("audit",)),
}


@dataclass(frozen=True)
class Documented:
    """Another contract that has a document."""

    region: str
    year: int
    conditions: tuple[str, ...] = ()
    above: Decimal = Decimal(0)
    up_to: Decimal = Decimal("9e9")
    signed_on: date | None = None

    def matches(self, amount: Decimal, signed_on: date | None, region: str) -> bool:
        """Whether a contract is of this kind."""
        if signed_on is None or signed_on.year != self.year or self.signed_on not in (None, signed_on):
            return False
        return self.above < amount <= self.up_to and region == self.region


_LIMIT = Decimal(100_000)

# Neighbours of the flagship question: each fails it somewhere. Two carry look-alikes of the recurring conditions.
OTHER_DOCUMENTED = (
    Documented("UK", 2025, ("penalty_5",), above=_LIMIT),
    Documented("NA", 2025, ("cpi_uncapped",), above=_LIMIT),
    Documented("LATAM", 2025, ("escrow",), above=_LIMIT),
    Documented("EU", 2025, above=_LIMIT - 1, up_to=_LIMIT),
    Documented("EU", 2025, ("exclusivity",), up_to=Decimal(90_000)),
    Documented("EU", 2024, ("change_of_control",), above=_LIMIT, signed_on=date(2024, 12, 31)),
    Documented("EU", 2026, above=_LIMIT, signed_on=date(2026, 1, 1)),
    Documented("APAC", 2023),
)
