"""Days, months, quarters and years as people write them, in Spanish and English."""

import re
from dataclasses import dataclass
from datetime import date

from services.understudy.words import fold


@dataclass(frozen=True)
class DateRange:
    """Days from `first` to before `until`; None is open. `start` and `end` are its place in the text."""

    first: date | None
    until: date | None
    start: int
    end: int


_MONTHS = {
    name: number
    for number, names in enumerate(
        """enero january ene jan|febrero february feb|marzo march mar|abril april abr apr|mayo may|junio june jun
        |julio july jul|agosto august ago aug|septiembre setiembre september sep sept|octubre october oct
        |noviembre november nov|diciembre december dic dec""".split("|"),
        start=1,
    )
    for name in names.split()
}
_ORDINALS = {
    name: number
    for number, names in enumerate(
        "primer primero first 1er 1st|segundo second 2o 2º 2nd|tercer tercero third 3er 3rd"
        "|cuarto fourth 4o 4º 4th ultimo last".split("|"),
        start=1,
    )
    for name in names.split()
}
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_MONTH = r"(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")"
_ORDINAL = r"(?P<ordinal>" + "|".join(sorted(_ORDINALS, key=len, reverse=True)) + r")"
_OF = r"(?:\s*,?\s*(?:de(?:l)?(?:\s+ano)?|of|in|/|-)?\s*"
_EDGE, _STOP = r"(?<![\w.,/-])", r"(?![\w/-]|[.,]\d)"
_DATE_FORMS = [
    ("day", re.compile(rf"{_EDGE}{_YEAR}-(?P<m>0[1-9]|1[0-2])-(?P<day>[0-3]\d){_STOP}")),
    ("day", re.compile(rf"{_EDGE}(?P<day>[0-3]?\d)[/.-](?P<m>0?[1-9]|1[0-2])[/.-]{_YEAR}{_STOP}")),
    (
        "day",
        re.compile(
            rf"{_EDGE}(?P<day>[0-3]?\d)(?:st|nd|rd|th|º)?\s+(?:de\s+|"
            rf"of\s+)?{_MONTH},?\s+(?:del?\s+)?{_YEAR}{_STOP}"
        ),
    ),
    ("day", re.compile(rf"{_EDGE}{_MONTH}\s+(?P<day>[0-3]?\d)(?:st|nd|rd|th)?,?\s+{_YEAR}{_STOP}")),
    (
        "quarter",
        re.compile(
            rf"{_EDGE}(?:[qt](?P<q>[1-4])|(?P<q2>[1-4])[qt]|{_ORDINAL}\s+(?:trimestre|"
            rf"quarter)){_OF}{_YEAR})?{_STOP}"
        ),
    ),
    (
        "half",
        re.compile(
            rf"{_EDGE}(?:[hs](?P<q>[12])|{_ORDINAL}\s+(?:semestre|"
            rf"half(?:\s+year)?)){_OF}{_YEAR})?{_STOP}"
        ),
    ),
    ("month", re.compile(rf"{_EDGE}{_YEAR}-(?P<m>0[1-9]|1[0-2]){_STOP}")),
    ("month", re.compile(rf"{_EDGE}{_MONTH}{_OF}{_YEAR}){_STOP}")),
    (
        "month",
        re.compile(
            r"(?<!\w)(?:in|en|de|of|during|durante|mes de|this|este|last)\s+"
            + _MONTH
            + r"(?!\w)(?!\s+(?:be|not|i|we|you)\b)"
        ),
    ),
    ("year", re.compile(rf"{_EDGE}{_YEAR}(?!\w|[.,]\d|[-/]\w|\s*(?:€|\$|£|%|k\b|eur|usd|mil|million))")),
    ("this", re.compile(r"(?<!\w)(?:this year|current year|este ano|ano actual|ano en curso)(?!\w)")),
    ("last", re.compile(r"(?<!\w)(?:last year|previous year|el ano pasado|ano anterior|ano pasado)(?!\w)")),
    ("thismonth", re.compile(r"(?<!\w)(?:this month|este mes)(?!\w)")),
    ("lastmonth", re.compile(r"(?<!\w)(?:last month|el mes pasado|mes pasado)(?!\w)")),
    ("today", re.compile(r"(?<!\w)(?:today|hoy)(?!\w)")),
]
_SINCE = re.compile(
    r"(?<!\w)(?:since|from|desde|a partir de|starting in|starting)\s+(?:el\s+|the\s+)?(?:ano\s+|year\s+)?$"
)
_AFTER_DAY = re.compile(r"(?<!\w)(?:after|later than|despues del?|posterior(?:es)? al?|tras)\s+(?:el\s+)?(?:ano\s+)?$")
_UNTIL_DAY = re.compile(
    r"(?<!\w)(?:before|earlier than|prior to|antes del?|anterior(?:es)? al?)\s+(?:el\s+)?(?:ano\s+)?$"
)
_THROUGH = re.compile(r"(?<!\w)(?:until|through|up to|hasta)\s+(?:el\s+)?(?:ano\s+)?$")
_RANGE_AND = re.compile(r"\s*(?:y|and|to|a|al|hasta|-|–|through|e)\s*(?:el\s+)?$")
_RANGE_OPEN = re.compile(r"(?<!\w)(?:between|entre|from|de|del|desde)\s+(?:el\s+)?$")
_NUMBER_BEFORE = re.compile(
    r"(?:more than|over|above|less than|fewer than|under|mas de|menos de|at least|al menos|top)\s+$"
)


def date_ranges(text: str, today: date) -> list[DateRange]:
    """Years, halves, quarters, months and days of a text, in order; a month without a year is the latest begun one."""
    folded = fold(text)
    found: list[DateRange] = []
    for form, pattern in _DATE_FORMS:
        for match in pattern.finditer(folded):
            if any(one.start < match.end() and match.start() < one.end for one in found):
                continue
            bounds = _bounds(form, match, today)
            if form == "year" and _NUMBER_BEFORE.search(folded, 0, match.start()):
                continue
            if bounds:
                found.append(DateRange(*bounds, match.start(), match.end()))
    found.sort(key=lambda one: one.start)
    return _joined(folded, found)


def _bounds(form: str, match: re.Match[str], today: date) -> tuple[date, date] | None:
    named = match.groupdict()
    year = int(named["year"]) if named.get("year") else None
    if form in ("this", "last"):
        year = today.year - (form == "last")
        return date(year, 1, 1), date(year + 1, 1, 1)
    if form in ("thismonth", "lastmonth"):
        return _months(today.year, today.month - (form == "lastmonth"), 1)
    if form == "today":
        return today, date.fromordinal(today.toordinal() + 1)
    if form == "year" and year:
        return date(year, 1, 1), date(year + 1, 1, 1)
    if form in ("quarter", "half"):
        size = 3 if form == "quarter" else 6
        which = named.get("q") or named.get("q2") or _ORDINALS.get(named.get("ordinal") or "")
        if not which or int(which) * size > 12:
            return None
        month = (int(which) - 1) * size + 1
        return _months(year or today.year - (month > today.month), month, size)
    month = int(named["m"]) if named.get("m") else _MONTHS[named["month"]]
    if form == "day" and year:
        try:
            day = date(year, month, int(named["day"]))
        except ValueError:
            return None
        return day, date.fromordinal(day.toordinal() + 1)
    return _months(year or today.year - (month > today.month), month, 1)


def _months(year: int, month: int, count: int) -> tuple[date, date]:
    first, until = year * 12 + month - 1, year * 12 + month - 1 + count
    return date(first // 12, first % 12 + 1, 1), date(until // 12, until % 12 + 1, 1)


def _joined(folded: str, found: list[DateRange]) -> list[DateRange]:
    """Two dates of one range become one; words such as since and before open an end."""
    joined: list[DateRange] = []
    index = 0
    while index < len(found):
        one = found[index]
        before = folded[max(0, one.start - 30) : one.start]
        if index + 1 < len(found):
            other = found[index + 1]
            between = folded[one.end : other.start]
            opening = _RANGE_OPEN.search(before)
            if _RANGE_AND.fullmatch(between) and (opening or between.strip() in ("-", "–")):
                start = one.start - (len(before) - opening.start()) if opening else one.start
                joined.append(DateRange(one.first, other.until, start, other.end))
                index += 2
                continue
        joined.append(_opened(one, before))
        index += 1
    return joined


def _opened(one: DateRange, before: str) -> DateRange:
    for pattern, first, until in (
        (_SINCE, one.first, None),
        (_AFTER_DAY, one.until, None),
        (_UNTIL_DAY, None, one.first),
        (_THROUGH, None, one.until),
    ):
        if match := pattern.search(before):
            return DateRange(first, until, one.start - (len(before) - match.start()), one.end)
    return one
