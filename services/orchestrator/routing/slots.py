"""Typed slots: what a question says for each parameter of a reviewed query. What it does not say is never guessed."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from services.orchestrator.query_shape import identifiers
from services.orchestrator.routing.wording import stems, tokens, word_lists
from services.runtime.expressions.dates import DateRange, date_ranges
from services.runtime.expressions.folding import fold
from services.runtime.expressions.quantities import Quantity, comparisons, quantities

# Two letters that are words too mean a value only when written as it is: `IN`, `US`.
_LONGEST_CODE = 2
_LOWER, _UPPER = (">", ">="), ("<", "<=")
_CURRENCIES = ("EUR", "USD", "GBP")
_QUOTATION = re.compile(r"[\"“«]\s*(?P<text>[^\"“”«»]{1,80}?)\s*[\"”»]")
# `of the supplier named "…"`.
_WORDS_BEFORE = 3
# A thousand periods are no question.
_MAX_CHARS = 2_000


class NotFilled(Exception):
    """A parameter cannot be filled from the question, or the question says what none can; one line for people."""


@dataclass(frozen=True)
class Slot:
    """A parameter. `operator`: how the statement compares a column with it, `limit` for LIMIT.

    `values`: the only ones, each with what stands for it. `unit`: ISO currency or `%`, where it is known. `bounds`:
    smallest and largest number, or first and last day. `about`: stems of what it is called.
    """

    name: str
    type: str
    operator: str = "="
    values: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    unit: str = ""
    bounds: tuple[Any, Any] = (None, None)
    required: bool = True
    about: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """`date`, `number`, `one of` a few values, `text`, or what cannot be read from a question."""
        if self.values:
            return "one of"
        match self.type.removesuffix("[]"):
            case "date" | "timestamp":
                return "date" if not self.type.endswith("[]") else "other"
            case "integer" | "numeric":
                return "number" if not self.type.endswith("[]") else "other"
            case "text":
                return "text"
            case _:
                return "other"


@dataclass(frozen=True)
class Filling:
    """Arguments by name as JSON takes them, and the places of the question that they came from."""

    arguments: Mapping[str, Any]
    spans: Sequence[tuple[int, int]]


def fill(
    question: str, slots: Sequence[Slot], today: date, nouns: Set[str] = frozenset(), *, partly: bool = False
) -> Filling:
    """The arguments that `question` gives; parameters with a default may be left out. Raises NotFilled.

    `nouns`: folded words that stand for what is asked about, and for no value: `pagos` is not `pagado`. `partly`: what
    the question does not say is known from elsewhere.
    """
    if len(question) > _MAX_CHARS:
        raise NotFilled("the question is too long")
    found: dict[str, Any] = {}
    spans: list[tuple[int, int]] = []
    quoted = _fill_quotations(question, [one for one in slots if one.kind == "text"], found)
    for start, end in quoted:
        question = question[:start] + " " * (end - start) + question[end:]
    spans += quoted
    periods = date_ranges(question, today)
    _fill_dates(periods, [one for one in slots if one.kind == "date"], today, found)
    spans += [(one.start, one.end) for one in periods]
    spans += _fill_numbers(question, spans, [one for one in slots if one.kind == "number"], found)
    spans += _fill_values(question, spans, [one for one in slots if one.kind == "one of"], nouns, found)
    spans += _fill_texts(question, spans, [one for one in slots if one.kind == "text"], found)
    for slot in slots:
        if slot.required and slot.name not in found and not partly:
            raise NotFilled(f"the question does not say `{slot.name}`")
    return Filling(found, spans)


def _fill_dates(periods: Sequence[DateRange], slots: Sequence[Slot], today: date, found: dict[str, Any]) -> None:
    if not periods:
        return
    if len(periods) > 1:
        raise NotFilled("the question names several periods")
    lower = [one for one in slots if one.operator in _LOWER]
    upper = [one for one in slots if one.operator in _UPPER]
    day = [one for one in slots if one.operator == "="]
    (period,) = periods
    if len(day) == 1 and not lower and not upper:
        if period.first is None or period.until is None or period.until - period.first != timedelta(1):
            raise NotFilled("the question names a period, the query takes one day")
        found[day[0].name] = _as_date(day[0], period.first)
    elif len(lower) == 1 and len(upper) == 1 and not day:
        _fill_period(period, lower[0], upper[0], today, found)
    elif len(lower) == 1 and not upper and not day and period.until is None and period.first is not None:
        found[lower[0].name] = _as_date(lower[0], _first(lower[0], period.first))
    elif len(upper) == 1 and not lower and not day and period.first is None and period.until is not None:
        found[upper[0].name] = _as_date(upper[0], _last(upper[0], period.until))
    else:
        raise NotFilled("the query has no parameter for the period")


def _fill_period(period: DateRange, lower: Slot, upper: Slot, today: date, found: dict[str, Any]) -> None:
    until, first = period.until, period.first
    if until is None and first is not None and first <= today:
        until = today + timedelta(1)  # `since March` ends today
    if until is None or (first is None and lower.required):
        raise NotFilled("the period is open")
    if first is not None:
        found[lower.name] = _as_date(lower, _first(lower, first))
    found[upper.name] = _as_date(upper, _last(upper, until))


def _first(slot: Slot, first: date) -> date:
    return first if slot.operator == ">=" else first - timedelta(1)


def _last(slot: Slot, until: date) -> date:
    """`until` is the day after the last one."""
    if slot.operator == "<=" and slot.type == "timestamp":
        raise NotFilled(f"`{slot.name}` would leave out most of the last day")
    return until if slot.operator == "<" else until - timedelta(1)


def _as_date(slot: Slot, day: date) -> str:
    low, high = slot.bounds
    if (low is not None and day.isoformat() < str(low)) or (high is not None and day.isoformat() > str(high)):
        raise NotFilled(f"`{slot.name}` would be outside of its bounds")
    return f"{day.isoformat()}T00:00:00" if slot.type == "timestamp" else day.isoformat()


def _fill_numbers(
    question: str, taken: Sequence[tuple[int, int]], slots: Sequence[Slot], found: dict[str, Any]
) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    thresholds = [one for one in comparisons(question) if _is_free(one.quantity.start, taken)]
    for one in thresholds:
        ends: list[tuple[str, Quantity]] = [(one.operator, one.quantity)]
        if one.operator == "between" and one.upper is not None:
            ends = [(">=", one.quantity), ("<=", one.upper)]
        for operator, quantity in ends:
            slot = _only([slot for slot in slots if slot.operator == operator and slot.name not in found], "threshold")
            found[slot.name] = _as_number(slot, quantity)
        spans.append((one.start, one.end))
    for quantity in quantities(question):
        if not _is_free(quantity.start, [*taken, *spans]):
            continue
        plain = [one for one in slots if one.operator in ("=", "limit") and one.name not in found]
        slot = _only(plain, "number")
        found[slot.name] = _as_number(slot, quantity)
        spans.append((quantity.start, quantity.end))
    return spans


def _only(slots: Sequence[Slot], what: str) -> Slot:
    if len(slots) != 1:
        raise NotFilled(
            f"the query has {'several parameters' if slots else 'no parameter'} for a {what} of the question"
        )
    return slots[0]


def _as_number(slot: Slot, quantity: Quantity) -> int | float:
    value, (low, high) = quantity.value, slot.bounds
    if quantity.unit in _CURRENCIES and slot.unit in _CURRENCIES and quantity.unit != slot.unit:
        raise NotFilled(f"`{slot.name}` is in {slot.unit}, the question in {quantity.unit}")
    if (quantity.unit == "%") != (slot.unit == "%") and quantity.unit:
        raise NotFilled(f"`{slot.name}` is {'a' if slot.unit == '%' else 'no'} percentage")
    whole = value == value.to_integral_value()
    if slot.type.startswith("integer") and not whole:
        raise NotFilled(f"`{slot.name}` is a whole number")
    if (low is not None and value < Decimal(str(low))) or (high is not None and value > Decimal(str(high))):
        raise NotFilled(f"`{slot.name}` would be outside of its bounds")
    return int(value) if whole else float(value)


def _fill_values(
    question: str, taken: Sequence[tuple[int, int]], slots: Sequence[Slot], nouns: Set[str], found: dict[str, Any]
) -> list[tuple[int, int]]:
    words = [one for one in tokens(question) if _is_free(one[1], taken)]
    spans: list[tuple[int, int]] = []
    for slot in slots:
        named = _named(question, words, slot, nouns)
        if named and any(start < end and start in range(*other) for start, end in named.values() for other in spans):
            raise NotFilled("a word of the question stands for values of several parameters")
        if slot.type.endswith("[]") and named:
            found[slot.name] = [_as_value(slot, value) for value in slot.values if value in named]
        elif len(named) == 1:
            found[slot.name] = _as_value(slot, next(iter(named)))
        elif named:
            raise NotFilled(f"the question names several values of `{slot.name}`")
        spans += named.values()
    return spans


def _as_value(slot: Slot, value: str) -> str | int:
    return int(value) if slot.type.startswith("integer") and value.lstrip("-").isdecimal() else value


def _named(
    question: str, words: Sequence[tuple[str, int, int]], slot: Slot, nouns: Set[str]
) -> dict[str, tuple[int, int]]:
    """The values that the words name, the longest names first, with their places."""
    names = [(value, name) for value, others in slot.values.items() for name in (value, *others)]
    names.sort(key=lambda one: -len(one[1]))
    found: dict[str, tuple[int, int]] = {}
    used: set[int] = set()
    for value, name in names:
        wanted = [word for word, _, _ in tokens(name)]
        for at in range(len(words) - len(wanted) + 1 if wanted else 0):
            here = words[at : at + len(wanted)]
            if used.intersection(range(at, at + len(wanted))) or not _alike(question, here, wanted, name, nouns):
                continue
            used.update(range(at, at + len(wanted)))
            found.setdefault(value, (here[0][1], here[-1][2]))
    return found


def _alike(
    question: str, here: Sequence[tuple[str, int, int]], wanted: Sequence[str], name: str, nouns: Set[str]
) -> bool:
    if len(name) <= _LONGEST_CODE and name.isupper():
        written = question[here[0][1] : here[0][2]]
        return written == name or (fold(written) == fold(name) and fold(written) not in word_lists()["fillers"])
    return all(
        word == other or (word not in nouns and stems(word) & stems(other))
        for (word, _, _), other in zip(here, wanted, strict=True)
    )


def _fill_texts(
    question: str, taken: Sequence[tuple[int, int]], slots: Sequence[Slot], found: dict[str, Any]
) -> list[tuple[int, int]]:
    """Codes such as CT-2025-0091: free text that is surely meant as it is written, like quotations."""
    spans: list[tuple[int, int]] = []
    codes: list[str] = []
    for code in identifiers(question):
        start = question.find(code, spans[-1][1] if spans else 0)
        if start >= 0 and _is_free(start, taken):
            spans.append((start, start + len(code)))
            codes.append(code)
    rest = [one for one in slots if one.name not in found]
    if not codes or not rest:
        return []
    slot = _only(rest, "code")
    if slot.operator != "=" or (len(codes) > 1 and not slot.type.endswith("[]")):
        raise NotFilled(f"the question names several values of `{slot.name}`")
    found[slot.name] = codes if slot.type.endswith("[]") else codes[0]
    return spans


def _fill_quotations(question: str, slots: Sequence[Slot], found: dict[str, Any]) -> list[tuple[int, int]]:
    """`the supplier "Talleres Ruiz"`: the words before the quotation say which parameter it is for."""
    spans: list[tuple[int, int]] = []
    for match in _QUOTATION.finditer(question):
        before = [word for word, _, _ in tokens(question[: match.start()])][-_WORDS_BEFORE:]
        named = frozenset(stem for word in before if word not in word_lists()["fillers"] for stem in stems(word))
        wanted = [one for one in slots if one.operator == "=" and one.about & named]
        if not wanted:
            continue
        slot = _only(wanted, "quotation")
        if slot.name in found:
            raise NotFilled(f"the question names several values of `{slot.name}`")
        found[slot.name] = [match["text"]] if slot.type.endswith("[]") else match["text"]
        spans.append(match.span())
    return spans


def _is_free(at: int, taken: Sequence[tuple[int, int]]) -> bool:
    return not any(start <= at < end for start, end in taken)
