"""Periods that are told from today: yesterday, last quarter, the last 30 days, in Spanish and English."""

import re
from calendar import monthrange
from datetime import date, timedelta

# In folded text: no accents, lower case.
_UNITS = {
    "day": "day days dia dias", "week": "week weeks semana semanas", "month": "month months mes meses",
    "quarter": "quarter quarters trimestre trimestres", "half": "semestre semestres",
    "year": "year years ano anos",
}  # fmt: skip
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_UNIT = "(?P<unit>" + "|".join(sorted(_UNIT_OF, key=len, reverse=True)) + ")"
_MONTHS_IN = {"month": 1, "quarter": 3, "half": 6, "year": 12}
_COUNTS = {
    word: count
    for count, words in enumerate("two dos|three tres|four cuatro|five cinco|six seis".split("|"), start=2)
    for word in words.split()
} | {"ten": 10, "diez": 10, "twelve": 12, "doce": 12}
_COUNT = r"(?P<count>\d{1,3}|" + "|".join(_COUNTS) + ")"
# `the last quarter of 2025` is the fourth one.
_NOT_OF_A_YEAR = r"(?!\w)(?!\s+(?:of|de|del|in|en)\s+(?:the\s+|el\s+)?(?:year\s+|ano\s+)?(?:19|20)\d\d)"
_STEPS = (
    (0, rf"(?:this|current)\s+{_UNIT}|est[ea]\s+{_UNIT}|(?:el\s+)?{_UNIT}\s+(?:actual|en\s+curso)"),
    (
        -1,
        rf"(?:last|previous)\s+{_UNIT}|(?:(?:el|la)\s+)?(?:pasad[oa]|ultim[oa])\s+{_UNIT}"
        rf"|(?:(?:el|la)\s+)?{_UNIT}\s+(?:pasad[oa]|anterior)",
    ),
    (1, rf"next\s+{_UNIT}|(?:el|la)\s+proxim[oa]\s+{_UNIT}|(?:(?:el|la)\s+)?{_UNIT}\s+(?:que\s+viene|siguiente)"),
)


def _numbered(alternatives: str) -> str:
    """A name of a group may be used once in an expression; these count theirs."""
    parts = alternatives.split("(?P<unit>")
    return parts[0] + "".join(f"(?P<unit{index}>{part}" for index, part in enumerate(parts[1:]))


_STEPPED = [(step, re.compile(rf"(?<!\w)(?:{_numbered(words)}){_NOT_OF_A_YEAR}")) for step, words in _STEPS]
_ROLLING = re.compile(
    rf"(?<!\w)(?:the\s+|los\s+|las\s+)?(?:last|past|previous|ultim[oa]s)\s+{_COUNT}\s+{_UNIT}(?!\w)"
    rf"(?!\s+(?:of|de|del)\s+(?:19|20)\d\d)"
)
_TO_DATE = re.compile(
    r"(?<!\w)(?:year[ -]to[ -]date|ytd|(?:so\s+far\s+)?this\s+year\s+so\s+far|so\s+far\s+this\s+year"
    r"|(?:en\s+)?lo\s+que\s+va\s+de(?:l)?\s+ano)(?!\w)"
)
_DAYS = [
    (days, re.compile(rf"(?<!\w)(?:{words})(?!\w)"))
    for days, words in ((0, "today|hoy"), (-2, "anteayer|the\\s+day\\s+before\\s+yesterday"), (-1, "yesterday|ayer"))
]


def relative_periods(folded: str, today: date) -> list[tuple[date, date, int, int]]:
    """First day, day after the last one, and place, of each in a folded text; the longer forms come first.

    A window such as `the last 30 days` ends with today.
    """
    found: list[tuple[date, date, int, int]] = []
    tomorrow = today + timedelta(1)
    for match in _TO_DATE.finditer(folded):
        found.append((date(today.year, 1, 1), tomorrow, *match.span()))
    for match in _ROLLING.finditer(folded):
        count = _COUNTS.get(match["count"]) or int(match["count"])
        if count and (first := _before(today, count, _UNIT_OF[match["unit"]])):
            found.append((first, tomorrow, *match.span()))
    for step, pattern in _STEPPED:
        for match in pattern.finditer(folded):
            word = next(one for one in match.groups() if one)
            if bounds := calendar_period(today, step, _UNIT_OF[word]):
                found.append((*bounds, *match.span()))
    for days, pattern in _DAYS:
        day = today + timedelta(days)
        found.extend((day, day + timedelta(1), *match.span()) for match in pattern.finditer(folded))
    return found


def calendar_period(today: date, step: int, unit: str) -> tuple[date, date] | None:
    """The calendar's unit that is `step` units from today's, up to the day after it; None for a day.

    `unit` is week, month, quarter, half or year. A week begins on Monday (ISO 8601).
    """
    if unit == "day":
        return None
    if unit == "week":
        monday = today + timedelta(7 * step - today.weekday())
        return monday, monday + timedelta(7)
    size = _MONTHS_IN[unit]
    month = (today.year * 12 + today.month - 1) // size * size + step * size
    return _month(month), _month(month + size)


def _month(number: int) -> date:
    """The first day of a month that is counted from the year 0."""
    return date(number // 12, number % 12 + 1, 1)


def _before(today: date, count: int, unit: str) -> date | None:
    if unit in ("day", "week"):
        return today - timedelta(count * (7 if unit == "week" else 1))
    month = today.year * 12 + today.month - 1 - count * _MONTHS_IN[unit]
    if month < 12 * 1900:
        return None
    year, number = month // 12, month % 12 + 1
    return date(year, number, min(today.day, monthrange(year, number)[1]))
