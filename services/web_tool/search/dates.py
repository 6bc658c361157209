"""Days of publication, from the forms in which search providers write them, Spanish and English.

Own code: the general libraries see a day in `12` and in `Q3 2024`, and take 30 MB and 200 ms for it.
"""

import re
import unicodedata
from calendar import monthrange
from datetime import date, datetime, timedelta
from email.utils import parsedate_to_datetime

_MONTHS = {
    name: number
    for number, names in enumerate(
        "jan january ene enero|feb february febrero|mar march marzo|apr april abr abril|may mayo|jun june junio|"
        "jul july julio|aug august ago agosto|sep sept september septiembre setiembre|oct october octubre|"
        "nov november noviembre|dec december dic diciembre".split("|"),
        start=1,
    )
    for name in names.split()
}
_UNITS = {
    "second": 0, "segundo": 0, "sec": 0, "seg": 0, "minute": 0, "minuto": 0, "min": 0, "hour": 0, "hora": 0, "hr": 0,
    "h": 0, "day": 1, "dia": 1, "d": 1, "week": 7, "semana": 7, "wk": 7, "month": 30, "mes": 30, "mo": 30, "year": 365,
    "ano": 365, "yr": 365,
}  # fmt: skip
_NUMBERS = {"a": 1, "an": 1, "one": 1, "un": 1, "una": 1, "dos": 2, "two": 2, "tres": 3, "three": 3}
_WORDS = {"today": 0, "hoy": 0, "just now": 0, "ahora": 0, "yesterday": 1, "ayer": 1, "anteayer": 2}
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\.?,? (?:de )?([a-z]{3,10})\.?,? (?:de |del )?(\d{4})\b")
_MONTH_FIRST = re.compile(r"([a-z]{3,10})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b")
_AGO = re.compile(r"(?:about |over |hace )?(?:mas de )?(\d{1,4}|[a-z]{1,5}) ?([a-z]{1,8})(?: ago| atras)?")


def iso_date(text: str, today: date) -> str:
    """The day in ISO 8601, or nothing: where it cannot be read, is no day of the calendar, or is yet to come."""
    plain = _plain(text[:80])
    found = _iso(plain) or _mail(text[:80]) or _named(plain) or _relative(plain, today)
    return found.isoformat() if found and date(1990, 1, 1) <= found <= today + timedelta(days=1) else ""


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(c for c in letters if not unicodedata.combining(c)).split())


def _iso(text: str) -> date | None:
    try:
        return datetime.fromisoformat(text.upper().replace(" UTC", "Z")).date()
    except ValueError:
        pass
    found = re.match(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)", text)
    return _day(*map(int, found.groups())) if found else None


def _mail(text: str) -> date | None:
    """RFC 5322, as in feeds."""
    if not re.match(r"\s*[A-Za-z]{3},", text):
        return None
    try:
        return parsedate_to_datetime(text).date()
    except (ValueError, TypeError, IndexError):
        return None


def _named(text: str) -> date | None:
    if (found := _DAY_FIRST.search(text)) and found.group(2) in _MONTHS:
        return _day(int(found.group(3)), _MONTHS[found.group(2)], int(found.group(1)))
    if (found := _MONTH_FIRST.search(text)) and found.group(1) in _MONTHS:
        return _day(int(found.group(3)), _MONTHS[found.group(1)], int(found.group(2)))
    return None


def _relative(text: str, today: date) -> date | None:
    if text in _WORDS:
        return today - timedelta(days=_WORDS[text])
    found = _AGO.fullmatch(text)
    if not found or not (text.startswith("hace ") or text.endswith((" ago", " atras"))):
        return None
    number, unit = found.groups()
    count = int(number) if number.isdecimal() else _NUMBERS.get(number, 0)
    days = next((_UNITS[one] for one in (unit, unit.removesuffix("s"), unit.removesuffix("es")) if one in _UNITS), None)
    if days is None or not count:
        return None
    if days in (30, 365):
        return _months_before(today, count * (12 if days == 365 else 1))
    return today - timedelta(days=count * days)


def _months_before(today: date, months: int) -> date | None:
    year, month = divmod(today.year * 12 + today.month - 1 - months, 12)
    return _day(year, month + 1, min(today.day, monthrange(year, month + 1)[1])) if year > 0 else None


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
