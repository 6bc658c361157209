"""Whether what a text says of more, or less, than a number goes for a number that a question names."""

import re

from services.runtime.expressions.quantities import Comparison, Quantity, comparisons
from services.understudy.words import fold, stem

_NEXT = re.compile(r"[\s-]*([^\W\d_]+)")
# A term of 90 days is another one than that of more than 60: of times a bound tells nothing.
_TIMES = frozenset(
    map(stem, "seconds minutes hours days weeks months years segundos minutos horas dias semanas meses anos".split())
)


def goes_for(asked: Quantity, question: str, text: str) -> bool:
    """`products of more than 30 kilos` goes for one of 40 kilos. Both must be of the same unit, which is no time's."""
    unit = _unit(asked, question)
    if not unit or unit in _TIMES:
        return False
    return any(_unit(one.quantity, text) == unit and _holds(one, asked) for one in comparisons(text))


def _unit(quantity: Quantity, text: str) -> str:
    following = _NEXT.match(fold(text), quantity.end)
    return quantity.unit or (stem(following[1]) if following else "")


def _holds(bound: Comparison, asked: Quantity) -> bool:
    match bound.operator:
        case ">":
            return asked.value > bound.quantity.value
        case ">=":
            return asked.value >= bound.quantity.value
        case "<":
            return asked.value < bound.quantity.value
        case "<=":
            return asked.value <= bound.quantity.value
        case _:
            return bound.upper is not None and bound.quantity.value <= asked.value <= bound.upper.value
