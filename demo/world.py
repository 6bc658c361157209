"""The demo company's invented world: providers, contracts, payments, and which special conditions each contract has.

Tables and documents are both made from here, so that they agree. Everything follows from one seed.
"""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from demo import plan
from demo.dice import Dice

COMPANY = "Alisal Demo, S.A."
SITES = ("Madrid", "Zaragoza", "Valencia", "Bilbao", "Lisboa", "Lyon")


@dataclass(frozen=True)
class Region:
    code: str
    name: str
    name_es: str


@dataclass(frozen=True)
class Provider:
    """`language` and `sector` shape the documents; they are no columns."""

    id: int
    name: str
    country: str
    region_code: str
    language: str
    sector: str


@dataclass(frozen=True)
class Contract:
    """`amount` is EUR without taxes; `signed_on` is None for drafts. `site`, `term_months` appear in documents only."""

    id: str
    title: str
    provider_id: int
    amount: Decimal
    signed_on: date | None
    category: str
    status: str
    language: str
    site: str
    term_months: int


@dataclass(frozen=True)
class Payment:
    """`paid_on` is None unless the status is `paid`."""

    id: int
    contract_id: str
    amount: Decimal
    paid_on: date | None
    status: str


@dataclass(frozen=True)
class World:
    """`conditions` has an entry for each contract that has a document: its special conditions, perhaps none."""

    regions: tuple[Region, ...]
    providers: tuple[Provider, ...]
    contracts: tuple[Contract, ...]
    payments: tuple[Payment, ...]
    conditions: Mapping[str, tuple[str, ...]]

    def provider(self, contract: Contract) -> Provider:
        """Who the contract is with."""
        return self.providers[contract.provider_id - 1]

    def contract(self, contract_id: str) -> Contract:
        """The contract of that code. Raises StopIteration when there is none."""
        return next(contract for contract in self.contracts if contract.id == contract_id)

    def version(self) -> str:
        """Changes with any value."""
        rows = [
            [astuple(row) for row in rows] for rows in (self.regions, self.providers, self.contracts, self.payments)
        ]
        return hashlib.sha256(repr((rows, sorted(self.conditions.items()))).encode()).hexdigest()


REGIONS = (
    Region("EU", "European Union", "Unión Europea"),
    Region("UK", "United Kingdom", "Reino Unido"),
    Region("NA", "North America", "Norteamérica"),
    Region("LATAM", "Latin America", "Latinoamérica"),
    Region("APAC", "Asia and Pacific", "Asia y Pacífico"),
)


@cache
def generate(seed: int = plan.SEED) -> World:
    """The world of a seed; the same on every machine and Python."""
    dice = Dice(seed)
    providers = _read_providers()
    wording = read_wording()["categories"]
    signed = [
        _contract(dice, lot, cents, index, providers, wording)
        for lot in plan.LOTS
        for index, cents in enumerate(draw_amounts(dice, lot))
    ]
    contracts = _numbered([*signed, *(_unsigned(dice, providers, wording) for _ in range(plan.DRAFTS))])
    payments = tuple(_payments(dice, contracts))
    conditions = _assign_conditions(dice, contracts, providers)
    return World(REGIONS, providers, contracts, payments, conditions)


@cache
def read_wording() -> Mapping[str, Any]:
    """What contracts say, in both languages."""
    return yaml.safe_load(files("demo").joinpath("texts/wording.yaml").read_text(encoding="utf-8"))


def _read_providers() -> tuple[Provider, ...]:
    text = files("demo").joinpath("providers.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(
        Provider(number, row["name"], row["country"], row["region"], row["language"], row["sector"])
        for number, row in enumerate(rows, 1)
    )


def draw_amounts(dice: Dice, lot: plan.Lot) -> list[int]:
    """Amounts of a lot in cents; with a total, the spread is scaled to it and the last one takes the remainder."""
    # Whole numbers throughout: `sum` of floats came to round differently in Python 3.12.
    spread = [dice.below(1_000) * dice.below(1_000) for _ in range(lot.count)]
    steps = [dice.pick((100_000, 50_000, 5_000, 1)) for _ in range(lot.count)]
    room, whole = lot.high - lot.low, 1_000_000
    if lot.total is not None:
        room, whole = lot.total - lot.low * lot.count, sum(spread)
    amounts = [lot.low + x * room // whole // step * step for x, step in zip(spread, steps, strict=True)]
    if lot.total is None:
        return amounts
    amounts[-1] += lot.total - sum(amounts)
    if min(amounts) < lot.low or max(amounts) > lot.high:
        raise ValueError(f"the plan's total of {lot.region} {lot.year} cannot be met within its bounds")
    return amounts


def _contract(
    dice: Dice, lot: plan.Lot, cents: int, index: int, providers: Sequence[Provider], wording: Mapping[str, Any]
) -> Contract:
    provider = dice.pick([provider for provider in providers if provider.region_code == lot.region])
    signed_on = lot.days[index] if index < len(lot.days) else _workday(dice, lot.year, lot.last_day)
    term_months = dice.pick((12, 18, 24, 36))
    ended = signed_on + timedelta(days=term_months * 30) < plan.AS_OF
    return Contract(
        id="",
        title=_title(dice, provider, wording),
        provider_id=provider.id,
        amount=Decimal(cents).scaleb(-2),
        signed_on=signed_on,
        category=provider.sector,
        status="ended" if ended else "active",
        language=provider.language,
        site=dice.pick(SITES),
        term_months=term_months,
    )


def _unsigned(dice: Dice, providers: Sequence[Provider], wording: Mapping[str, Any]) -> Contract:
    region = dice.pick(("EU", "EU", "UK", "NA", "LATAM"))
    lot = plan.Lot(plan.AS_OF.year, region, 1, 20_000_00, 300_000_00)
    [cents] = draw_amounts(dice, lot)
    return replace(_contract(dice, lot, cents, 0, providers, wording), signed_on=None, status="draft")


def _title(dice: Dice, provider: Provider, wording: Mapping[str, Any]) -> str:
    topic = dice.pick(wording[provider.sector][provider.language]["topics"])
    lot = dice.between(1, 9)
    return f"{topic}, lote {lot}" if provider.language == "es" else f"{topic}, lot {lot}"


def _workday(dice: Dice, year: int, last: date | None) -> date:
    """A weekday that is neither the first nor the last day of the year: those are for the plan to give."""
    first, last = date(year, 1, 2), last or date(year, 12, 30)
    while True:
        day = first + timedelta(days=dice.below((last - first).days + 1))
        if day.weekday() < 5:
            return day


def _numbered(contracts: list[Contract]) -> tuple[Contract, ...]:
    """Codes run within each year in the order of signature, drafts last, as in a register."""
    ordered = sorted(contracts, key=lambda c: (c.signed_on or date(plan.AS_OF.year, 12, 31), c.title, c.amount))
    counts: dict[int, int] = {}
    numbered: list[Contract] = []
    for contract in ordered:
        year = (contract.signed_on or plan.AS_OF).year
        counts[year] = counts.get(year, 0) + 1
        numbered.append(replace(contract, id=f"CT-{year}-{counts[year]:04d}"))
    return tuple(numbered)


def _payments(dice: Dice, contracts: Sequence[Contract]) -> list[Payment]:
    """The price in equal instalments over the term; the last one takes the remainder."""
    payments: list[Payment] = []
    for contract in contracts:
        if contract.signed_on is None:
            continue
        count = dice.between(2, 4)
        part = (contract.amount / count).quantize(Decimal("0.01"))
        for index in range(count):
            due = contract.signed_on + timedelta(days=30 * contract.term_months * index // count + dice.between(20, 45))
            late = dice.unit() < 0.04
            status = "pending" if due > plan.AS_OF else "late" if late else "paid"
            amount = part if index < count - 1 else contract.amount - part * (count - 1)
            payments.append(Payment(len(payments) + 1, contract.id, amount, due if status == "paid" else None, status))
    return payments


def is_headline(contract: Contract, provider: Provider) -> bool:
    """What the flagship question asks for: above 100,000 EUR, signed in 2025, with a provider of the EU."""
    signed_in_2025 = contract.signed_on is not None and contract.signed_on.year == 2025
    return contract.amount > 100_000 and signed_in_2025 and provider.region_code == "EU"


def _assign_conditions(
    dice: Dice, contracts: Sequence[Contract], providers: Sequence[Provider]
) -> dict[str, tuple[str, ...]]:
    """Chooses the contracts that have a document, and gives them the plan's special conditions."""
    conditions: dict[str, tuple[str, ...]] = {}

    def choose(candidates: Sequence[Contract], kinds: tuple[str, ...]) -> None:
        # There is no source code to deposit where rooms are cleaned.
        free = [c for c in candidates if c.id not in conditions and (c.category == "software" or "escrow" not in kinds)]
        conditions[dice.pick(free).id] = kinds

    headline = [c for c in contracts if is_headline(c, providers[c.provider_id - 1])]
    for language, sets in plan.HEADLINE_CONDITIONS.items():
        for kinds in sets:
            choose([contract for contract in headline if contract.language == language], kinds)
    for wanted in plan.OTHER_DOCUMENTED:
        regions = [providers[contract.provider_id - 1].region_code for contract in contracts]
        pairs = zip(contracts, regions, strict=True)
        choose([c for c, region in pairs if wanted.matches(c.amount, c.signed_on, region)], wanted.conditions)
    return dict(sorted(conditions.items()))
