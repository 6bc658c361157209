"""What the calculator can do with numbers and dates, within bounds."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

_MAX_EXPONENT, _MAX_MAGNITUDE = 64, 60
_MAX_DAYS = 4_000_000
SHOWN_DIGITS = 20

Value = Decimal | date


class BadExpression(Exception):
    """What is wrong with an expression, in words for whoever wrote it to mend it by."""


def day_of(text: str) -> date:
    """The day that is written. Raises BadExpression."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadExpression(f"`{text}` is no day of the calendar") from None


def plain(value: Value) -> Decimal:
    """The value as a number. Raises BadExpression for dates."""
    if isinstance(value, date):
        raise BadExpression("a date can only be subtracted from a date, or have days added")
    return value


def added(left: Value, right: Value, sign: str) -> Value:
    """Sum or difference; of two dates the days between. Raises BadExpression."""
    if isinstance(left, date) and isinstance(right, date):
        if sign == "+":
            raise BadExpression("two dates cannot be added")
        return Decimal((left - right).days)
    if isinstance(left, date) or isinstance(right, date):
        day, count = (left, right) if isinstance(left, date) else (right, left)
        number = plain(count) if isinstance(day, date) else Decimal(0)
        if (
            not isinstance(day, date)
            or (sign == "-" and day is right)
            or number != int(number)
            or abs(number) > _MAX_DAYS
        ):
            raise BadExpression("only whole days can be added to a date")
        try:
            return day + timedelta(days=int(number if sign == "+" else -number))
        except OverflowError:
            raise BadExpression("the date is out of range") from None
    return left + right if sign == "+" else left - right


def raised(base: Decimal, exponent: Decimal) -> Decimal:
    """A whole power. Raises BadExpression."""
    if exponent != int(exponent) or abs(exponent) > _MAX_EXPONENT:
        raise BadExpression(f"exponents are whole numbers of at most {_MAX_EXPONENT}")
    if not base:
        if exponent <= 0:
            raise BadExpression("zero to a power that is not above zero")
        return base
    if abs(base.adjusted() * int(exponent)) > _MAX_MAGNITUDE:
        raise BadExpression("a number is too large or too small")
    return base ** int(exponent)


def bounded(value: Value) -> Value:
    """The value, if it is of a size that can be reckoned with. Raises BadExpression."""
    if isinstance(value, Decimal) and value and not -_MAX_MAGNITUDE <= value.adjusted() <= _MAX_MAGNITUDE:
        raise BadExpression("a number is too large or too small")
    return value


def _round(arguments: Sequence[Value]) -> Value:
    if len(arguments) > 2:
        raise BadExpression("`round` takes a number and how many decimals")
    number, places = plain(arguments[0]), plain(arguments[1]) if len(arguments) > 1 else Decimal(0)
    if places != int(places) or not 0 <= places <= SHOWN_DIGITS:
        raise BadExpression(f"`round` gives 0 to {SHOWN_DIGITS} decimals")
    return number.quantize(Decimal(1).scaleb(-int(places)), rounding=ROUND_HALF_UP)


def _one(arguments: Sequence[Value], name: str, count: int) -> None:
    if len(arguments) != count:
        raise BadExpression(f"`{name}` takes {count} argument{'s' if count > 1 else ''}")


def _abs(arguments: Sequence[Value]) -> Value:
    _one(arguments, "abs", 1)
    return abs(plain(arguments[0]))


def _days(arguments: Sequence[Value]) -> Value:
    _one(arguments, "days", 2)
    first, second = arguments
    if not isinstance(first, date) or not isinstance(second, date):
        raise BadExpression("`days` takes two dates, such as days(2025-01-31; 2025-03-01)")
    return Decimal((second - first).days)


def _extreme(choose: Callable[[Sequence[Decimal]], Decimal]) -> Callable[[Sequence[Value]], Value]:
    def found(arguments: Sequence[Value]) -> Value:
        days = [one for one in arguments if isinstance(one, date)]
        if len(days) == len(arguments):
            numbers = [Decimal(one.toordinal()) for one in days]
            return date.fromordinal(int(choose(numbers)))
        return choose([plain(one) for one in arguments])

    return found


def _total(arguments: Sequence[Value]) -> Decimal:
    return sum((plain(one) for one in arguments), Decimal(0))


def _mean(arguments: Sequence[Value]) -> Value:
    return _total(arguments) / len(arguments)


FUNCTIONS: Mapping[str, Callable[[Sequence[Value]], Value]] = {
    "sum": _total,
    "avg": _mean,
    "mean": _mean,
    "min": _extreme(min),
    "max": _extreme(max),
    "round": _round,
    "abs": _abs,
    "days": _days,
}
