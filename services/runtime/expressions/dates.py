"""Days, months, quarters and years as people write them, in Spanish and English."""

import re
from dataclasses import dataclass, replace
from datetime import date

from services.runtime.expressions.folding import fold
from services.runtime.expressions.relative import relative_periods


@dataclass(frozen=True)
class DateRange:
    """Days from `first` to before `until`; None is open. `start` and `end` are its place in the text.

    `whole`: both ends were named, so that words around it open none.
    """

    first: date | None
    until: date | None
    start: int
    end: int
    whole: bool = False


# Full names of the months in order, and their abbreviations, folded, by language.
MONTH_NAMES = {
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "en": "january february march april may june july august september october november december",
}
MONTH_ABBREVIATIONS = {
    "es": "ene feb mar abr may jun jul ago sep oct nov dic",
    "en": "jan feb mar apr may jun jul aug sep oct nov dec",
}
# Number of a month by any of these.
MONTHS = {
    name: number
    for names in (*MONTH_NAMES.values(), *MONTH_ABBREVIATIONS.values())
    for number, name in enumerate(names.split(), start=1)
} | {"setiembre": 9, "sept": 9}
_ORDINALS = {
    name: number
    for number, names in enumerate(
        "primer primero first 1er 1st|segundo second 2o 2º 2nd|tercer tercero third 3er 3rd"
        "|cuarto fourth 4o 4º 4th ultimo last".split("|"),
        start=1,
    )
    for name in names.split()
}
# Days in words, which need `de` or `of` before the month: `five may` is no day.
_DAY_NAMES = {
    name: number
    for number, names in enumerate(
        """primero uno first|dos second|tres third|cuatro fourth|cinco fifth|seis sixth|siete seventh|ocho eighth
        |nueve ninth|diez tenth|once eleventh|doce twelfth|trece thirteenth|catorce fourteenth|quince fifteenth
        |dieciseis sixteenth|diecisiete seventeenth|dieciocho eighteenth|diecinueve nineteenth|veinte twentieth
        |veintiuno twenty-first|veintidos twenty-second|veintitres twenty-third|veinticuatro twenty-fourth
        |veinticinco twenty-fifth|veintiseis twenty-sixth|veintisiete twenty-seventh|veintiocho twenty-eighth
        |veintinueve twenty-ninth|treinta thirtieth|thirty-first""".split("|"),
        start=1,
    )
    for name in names.split()
} | {"treinta y uno": 31}
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_MONTH, _MONTH2 = rf"(?P<month>{_NAMES})", rf"(?P<month2>{_NAMES})"
_ORDINAL = r"(?P<ordinal>" + "|".join(sorted(_ORDINALS, key=len, reverse=True)) + r")"
_OF = r"(?:\s*,?\s*(?:de(?:l)?(?:\s+ano)?|of|in|/|-)?\s*"
_EDGE, _STOP = r"(?<![\w.,/-])", r"(?![\w/-]|[.,]\d)"
# `May` and `march` are words of other kinds as well.
_WHICH = rf"[qt](?P<q>[1-4])|(?P<q2>[1-4])[qt]|{_ORDINAL}\s+(?:trimestre|quarter)"
_TOWARDS = "since|until|through|before|after|desde|hasta|antes de|despues de|a partir de"
_TO_MONTH = r"(?:\s+(?:to|a|al|hasta|until|through)\s+|\s?[-–]\s?)"
_NO_VERB = r"(?!\w)(?!\s+(?:be|not|i|we|you)\b)"
_DAY, _DAY2 = (rf"(?P<day{name}>[0-3]?\d)(?:st|nd|rd|th|o|º)?" for name in ("", "2"))
_DAY_IN_WORDS = r"(?P<dayname>" + "|".join(sorted(_DAY_NAMES, key=len, reverse=True)) + r")\s+(?:de|of)\s+"
_ON_DAY, _IN_YEAR = r"\s+(?:de\s+|of\s+)?", rf"{_OF}{_YEAR})"
_TO = r"\s*(?:y|and|to|a|al|hasta|until|through|-|–)\s*(?:el\s+|the\s+)?"
_DATE_FORMS = [
    (form, re.compile(pattern))
    for form, pattern in (
        ("day", rf"{_EDGE}{_YEAR}-(?P<m>0[1-9]|1[0-2])-(?P<day>[0-3]\d){_STOP}"),
        ("day", rf"{_EDGE}(?P<day>[0-3]?\d)[/.-](?P<m>0?[1-9]|1[0-2])[/.-]{_YEAR}{_STOP}"),
        ("days", rf"{_EDGE}{_DAY}(?:{_ON_DAY}{_MONTH})?{_TO}{_DAY2}{_ON_DAY}{_MONTH2}{_IN_YEAR}?{_STOP}"),
        ("days", rf"{_EDGE}{_MONTH}\s+{_DAY}{_TO}{_MONTH2}\s+{_DAY2}{_IN_YEAR}?{_STOP}"),
        ("day", rf"{_EDGE}(?P<m>0?[1-9]|1[0-2])/(?P<day>1[3-9]|2\d|3[01])/{_YEAR}{_STOP}"),
        ("day", rf"{_EDGE}{_DAY_IN_WORDS}{_MONTH}{_IN_YEAR}?{_STOP}"),
        ("day", rf"{_EDGE}{_DAY}{_ON_DAY}{_MONTH}{_IN_YEAR}{_STOP}"),
        ("day", rf"{_EDGE}{_MONTH}\s+{_DAY},?\s+{_YEAR}{_STOP}"),
        ("day", rf"{_EDGE}{_DAY}{_ON_DAY}{_MONTH}{_STOP}"),
        ("day", rf"{_EDGE}{_MONTH}\s+(?:the\s+)?(?P<day>[0-3]?\d)(?:st|nd|rd|th){_STOP}"),
        ("quarter", rf"{_EDGE}(?:{_WHICH}){_IN_YEAR}?{_STOP}"),
        ("half", rf"{_EDGE}(?:[hs](?P<q>[12])|{_ORDINAL}\s+(?:semestre|half(?:\s+year)?)){_IN_YEAR}?{_STOP}"),
        ("month", rf"{_EDGE}{_YEAR}-(?P<m>0[1-9]|1[0-2]){_STOP}"),
        ("months", rf"(?<!\w)(?:between|entre)\s+{_MONTH}\s+(?:and|y)\s+{_MONTH2}{_IN_YEAR}?{_STOP}"),
        ("months", rf"(?<!\w)(?:(?:from|desde|del?)\s+)?{_MONTH}{_TO_MONTH}{_MONTH2}{_IN_YEAR}?{_STOP}"),
        ("month", rf"{_EDGE}{_MONTH}{_IN_YEAR}{_STOP}"),
        ("month", rf"(?<!\w)(?:in|en|de|of|during|durante|mes de|this|este|last)\s+{_MONTH}{_NO_VERB}"),
        ("bare month", rf"(?<!\w)(?:{_TOWARDS})\s+{_MONTH}{_NO_VERB}"),
        ("years", rf"{_EDGE}{_YEAR}\s?[-–]\s?(?P<year2>(?:19|20)\d\d){_STOP}"),
        ("year", rf"{_EDGE}{_YEAR}(?!\w|[.,]\d|[-/]\w|\s*(?:€|\$|£|%|k\b|eur|usd|mil|million))"),
    )
]  # fmt: skip
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
# What joins two dates without a word such as `between` before them.
_FROM_TO = ("-", "–", "to", "through", "a", "hasta")
_NUMBER_BEFORE = re.compile(
    r"(?:more than|over|above|less than|fewer than|under|mas de|menos de|at least|al menos|top)\s+$"
)


def date_ranges(text: str, today: date) -> list[DateRange]:
    """Periods of a text, from years to days, in order; a month or day without a year is the latest begun one."""
    folded = fold(text)
    found: list[DateRange] = []
    for first, until, start, end in relative_periods(folded, today):
        _add(found, DateRange(first, until, start, end))
    for form, pattern in _DATE_FORMS:
        for match in pattern.finditer(folded):
            if form == "year" and _NUMBER_BEFORE.search(folded, 0, match.start()):
                continue
            if bounds := _bounds(form, match, today):
                start = match.start("month") if form == "bare month" else match.start()
                _add(found, DateRange(*bounds, start, match.end(), form.endswith("s")))
    found.sort(key=lambda one: one.start)
    return _joined(folded, found)


def _add(found: list[DateRange], one: DateRange) -> None:
    """Adds it where nothing found before it has its place."""
    if not any(other.start < one.end and one.start < other.end for other in found):
        found.append(one)


def _bounds(form: str, match: re.Match[str], today: date) -> tuple[date, date] | None:
    named = match.groupdict()
    year = int(named["year"]) if named.get("year") else None
    if form in ("year", "years") and year:
        last = int(named.get("year2") or year)
        return (date(year, 1, 1), date(last + 1, 1, 1)) if year <= last else None
    if form in ("quarter", "half"):
        size = 3 if form == "quarter" else 6
        which = named.get("q") or named.get("q2") or _ORDINALS.get(named.get("ordinal") or "")
        if not which or int(which) * size > 12:
            return None
        month = (int(which) - 1) * size + 1
        return _months(year or _latest(today, month), month, size)
    month = int(named["m"]) if named.get("m") else MONTHS[named.get("month") or named["month2"]]
    if form in ("months", "days"):
        return _range(named, month, MONTHS[named["month2"]], year, today)
    if form == "day":
        day = _DAY_NAMES.get(named.get("dayname") or "") or int(named["day"])
        return _day(year or _latest(today, month, day), month, day)
    return _months(year or _latest(today, month), month, 1)


def _latest(today: date, month: int, day: int = 1) -> int:
    """The latest year in which that day has begun."""
    return today.year - ((month, day) > (today.month, today.day))


def _range(
    named: dict[str, str | None], month: int, month2: int, year: int | None, today: date
) -> tuple[date, date] | None:
    """From one month or day to another, of which the second may have a year; the first is never after it."""
    day, day2 = int(named.get("day") or 1), int(named.get("day2") or 1)
    crosses = (month, day) > (month2, day2)
    first_year = year - crosses if year else _latest(today, month, day)
    first = _day(first_year, month, day)
    last_year = first_year + crosses
    last = _day(last_year, month2, day2) if named.get("day2") else _months(last_year, month2, 1)
    return (first[0], last[1]) if first and last else None


def _day(year: int, month: int, day: int) -> tuple[date, date] | None:
    try:
        found = date(year, month, day)
    except ValueError:
        return None
    return found, date.fromordinal(found.toordinal() + 1)


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
            if _RANGE_AND.fullmatch(between) and (opening or between.strip() in _FROM_TO):
                start = one.start - (len(before) - opening.start()) if opening else one.start
                joined.append(DateRange(one.first, other.until, start, other.end))
                index += 2
                continue
        joined.append(_opened(one, before))
        index += 1
    return joined


def _opened(one: DateRange, before: str) -> DateRange:
    if one.whole:
        opening = _RANGE_OPEN.search(before)
        return replace(one, start=one.start - (len(before) - opening.start())) if opening else one
    for pattern, first, until in (
        (_SINCE, one.first, None),
        (_AFTER_DAY, one.until, None),
        (_UNTIL_DAY, None, one.first),
        (_THROUGH, None, one.until),
    ):
        if match := pattern.search(before):
            return DateRange(first, until, one.start - (len(before) - match.start()), one.end)
    return one
