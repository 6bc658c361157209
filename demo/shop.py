"""Customers and orders of the small tenants `other` and `tiny`, which share nothing with the demo company."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from demo.dice import Dice

_CITIES = ("Cádiz", "León", "Vigo", "Girona", "Murcia")
_FIRST = ("Ada", "Bruno", "Celia", "Darío", "Elvira", "Fermín", "Greta", "Hugo", "Irene", "Jacobo")
_LAST = ("Arbolejo", "Brezales", "Cantarrana", "Dosaguas", "Espliego")


@dataclass(frozen=True)
class Shop:
    """Rows in the order of the tables' columns."""

    customers: tuple[tuple[int, str, str], ...]
    orders: tuple[tuple[int, int, str, int, Decimal, date], ...]


def generate(seed: int, customer_count: int, order_count: int, prices: Sequence[tuple[str, int]]) -> Shop:
    """A shop that sells what `prices` lists (product and price in cents)."""
    dice = Dice(seed)
    names = dice.draw([f"{first} {last}" for first in _FIRST for last in _LAST], customer_count)
    customers = tuple((number, name, dice.pick(_CITIES)) for number, name in enumerate(names, 1))
    orders: list[tuple[int, int, str, int, Decimal, date]] = []
    for number in range(1, order_count + 1):
        product, cents = dice.pick(prices)
        quantity = dice.between(1, 6)
        ordered_on = date(2025, 1, 1) + timedelta(days=dice.below(540))
        total = Decimal(cents * quantity).scaleb(-2)
        orders.append((number, dice.between(1, customer_count), product, quantity, total, ordered_on))
    return Shop(customers, tuple(orders))
