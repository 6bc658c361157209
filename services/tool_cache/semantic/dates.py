"""Dates and periods in one form: "Q1 2024" and "first quarter of 2024", "ayer" and the day that it was.

What may be a date or something else ("1/3/2024" in English, "invoice 2024") stays as it was written.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from services.runtime.expressions.dates import MONTH_ABBREVIATIONS, MONTH_NAMES
from services.runtime.expressions.relative import calendar_period
from services.tool_cache.semantic.tokens import Token

_WEEKDAYS = {
    "en": "monday tuesday wednesday thursday friday saturday sunday",
    "es": "lunes martes miercoles jueves viernes sabado domingo",
}
_ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4,
    "primer": 1, "primero": 1, "segundo": 2, "tercer": 3, "tercero": 3, "cuarto": 4,
    "1er": 1, "2o": 2, "3er": 3, "4o": 4,
}  # fmt: skip
_PARTS = {"quarter": "Q", "trimestre": "Q", "half": "H", "semestre": "H"}
_UNITS = {"week": "week", "month": "month", "quarter": "quarter", "year": "year",
          "semana": "week", "mes": "month", "trimestre": "quarter", "año": "year"}  # fmt: skip
_OFFSETS = {"last": -1, "this": 0, "current": 0, "next": 1,
            "este": 0, "esta": 0, "proximo": 1, "proxima": 1}  # fmt: skip
_AFTERWARDS = {"pasado": -1, "pasada": -1, "proximo": 1, "proxima": 1, "actual": 0}
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1, "hoy": 0, "ayer": -1}
# Before a number that is a year, and after it: all else may be counted by it ("for 2000 users").
_BEFORE = set(
    "in during for of since from until till before after by and or to between through year years the within end start "
    "en durante para de del desde hasta antes despues y o e a al entre año años ejercicio".split()
)
_AFTER = set(
    "in during for of since from until till before after by and or to between through with without per at on as that "
    "which were was is are do does did have has we versus vs "
    "en durante para de del desde hasta con sin por y o e a al entre que se".split()
)
_NUMBERED = set(
    "invoice order ticket contract clause article customer client room item product model version number no page line "
    "windows office server sku incident case section factura pedido contrato clausula articulo cliente sala producto "
    "modelo numero pagina linea servidor incidencia caso seccion oferta offer ley law decree decreto iso boeing".split()
)
_DATED = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
_ORDINAL_DAY = re.compile(r"(\d{1,2})(st|nd|rd|th)?")


class DateReader:
    """Reads dates of one text. `today` is what relative ones are counted from."""

    def __init__(self, tokens: Sequence[Token], language: str, today: date) -> None:
        self._tokens = tokens
        self._words = [token.fold for token in tokens]
        self._language = language
        self._today = today
        self._months = _names(MONTH_NAMES, language) | _names(MONTH_ABBREVIATIONS, language)

    def at(self, at: int) -> tuple[str, int] | None:
        """The date that begins at a token, in canonical form, and the place behind it; None where there is none."""
        readers: tuple[Callable[[int], tuple[str, int] | None], ...] = (
            self._numeric, self._part_of_year, self._relative, self._with_month, self._weekday, self._year,
        )  # fmt: skip
        return next((found for reader in readers if (found := reader(at)) is not None), None)

    def _word(self, at: int) -> str:
        return self._words[at] if 0 <= at < len(self._words) else ""

    def _bare_year(self, at: int) -> int | None:
        """A number of four digits that can be a year, whatever stands around it."""
        word = self._word(at)
        return int(word) if re.fullmatch(r"(19|20)\d\d", word) and self._tokens[at].kind == "number" else None

    def _year_behind(self, at: int) -> tuple[int, int] | None:
        """A year, with "of" or a comma before it."""
        skip = at + 1 if self._word(at) in ("of", "de", "del", ",") else at
        year = self._bare_year(skip)
        return None if year is None else (year, skip + 1)

    def _numeric(self, at: int) -> tuple[str, int] | None:
        word = self._word(at)
        if match := re.fullmatch(r"((?:19|20)\d\d)-(0[1-9]|1[0-2])", word):
            return f"@{match[1]}-{match[2]}", at + 1
        match = _DATED.fullmatch(word)
        if match is None:
            return None
        first, second, third = int(match[1]), int(match[3]), int(match[4])
        if first > 1900:
            return _day(first, second, third, at + 1)
        if third < 1900 or (self._language != "es" and first <= 12 and second <= 12):
            return None
        return _day(third, first, second, at + 1) if second > 12 else _day(third, second, first, at + 1)

    def _part_of_year(self, at: int) -> tuple[str, int] | None:
        """Quarters and halves."""
        word, end, part = self._word(at), at + 1, ""
        if match := re.fullmatch(r"([qth])([1-4])|([1-4])([qt])", word):
            letter = (match[1] or match[4]).replace("t", "q").upper()
            part = f"{letter}{match[2] or match[3]}"
        elif word in _ORDINALS and self._word(at + 1) in _PARTS:
            part, end = f"{_PARTS[self._word(at + 1)]}{_ORDINALS[word]}", at + 2
        if not part or part in ("H3", "H4"):
            return None
        year = self._year_behind(end)
        return (f"@{year[0]}-{part}", year[1]) if year else (f"@{part}", end)

    def _relative(self, at: int) -> tuple[str, int] | None:
        word = self._word(at)
        if word in _DAYS:
            return f"@{self._today + timedelta(days=_DAYS[word])}", at + 1
        if word == "mañana" and self._word(at - 1) not in ("la", "esta", "cada", "una", "por"):
            return f"@{self._today + timedelta(days=1)}", at + 1
        if word in _OFFSETS and (unit := _UNITS.get(self._word(at + 1))):
            return self._period(unit, _OFFSETS[word]), at + 2
        if self._language == "es" and (unit := _UNITS.get(word)):
            if self._word(at + 1) in _AFTERWARDS:
                return self._period(unit, _AFTERWARDS[self._word(at + 1)]), at + 2
            behind = (self._word(at + 1), self._word(at + 2))
            if behind in (("que", "viene"), ("en", "curso")):
                return self._period(unit, 1 if behind[0] == "que" else 0), at + 3
        return None

    def _period(self, unit: str, offset: int) -> str:
        period = calendar_period(self._today, offset, unit)
        if period is None:
            raise ValueError(f"no unit of the calendar: {unit}")
        first = period[0]
        match unit:
            case "year":
                return f"@{first.year}"
            case "week":
                return f"@W{first}"
            case "month":
                return f"@{first.year}-{first.month:02}"
            case _:
                return f"@{first.year}-Q{first.month // 3 + 1}"

    def _with_month(self, at: int) -> tuple[str, int] | None:
        """A month with or without day and year, in any order that the two languages have."""
        day, end = None, at
        match = _ORDINAL_DAY.fullmatch(self._word(at))
        if match and 1 <= int(match[1]) <= 31:
            day, end = int(match[1]), at + 1
            if self._word(end) in ("of", "de"):
                end += 1
        month = self._months.get(self._word(end))
        if month is None or not self._is_month(end, dated=day is not None):
            return None
        end += 1
        if day is None and (match := _ORDINAL_DAY.fullmatch(self._word(end))) and 1 <= int(match[1]) <= 31:
            day, end = int(match[1]), end + 1
        year = self._year_behind(end)
        if year is None:
            return (f"@--{month:02}" if day is None else f"@--{month:02}-{day:02}"), end
        return (f"@{year[0]}-{month:02}", year[1]) if day is None else _day(year[0], month, day, year[1])

    def _is_month(self, at: int, *, dated: bool) -> bool:
        """Not the words "may" and "march", nor short forms that may be others."""
        word, token = self._word(at), self._tokens[at]
        clear = dated or self._year_behind(at + 1) is not None
        if len(word) == 3 and word not in MONTH_NAMES[self._language].split():
            return clear
        if word in ("may", "march"):
            return clear or (at > 0 and token.name) or self._word(at - 1) in _BEFORE
        return True

    def _weekday(self, at: int) -> tuple[str, int] | None:
        day = _names(_WEEKDAYS, self._language).get(self._word(at))
        return None if day is None else (f"@weekday{day}", at + 1)

    def _year(self, at: int) -> tuple[str, int] | None:
        if self._word(at) in ("year", "año") and (year := self._bare_year(at + 1)):
            return f"@{year}", at + 2
        year = self._bare_year(at)
        if year is None:
            return None
        before, behind = self._word(at - 1), self._word(at + 1)
        ends = not behind or behind in _AFTER or self._tokens[at + 1].kind == "break" or self._bare_year(at + 1)
        if ends:
            named = before in _NUMBERED or (at > 0 and self._tokens[at - 1].kind in ("number", "symbol"))
            return None if named and not self._bare_year(at - 1) else (f"@{year}", at + 1)
        # "2024 invoices", "the 2025 budget"; other numbers before a noun count it.
        leads = at == 0 or before in ("the", "our", "which", "what", "list", "show", "all")
        counts = self._tokens[at + 1].kind != "word"
        return (f"@{year}", at + 1) if self._language == "en" and leads and not counts and 2010 <= year < 2040 else None


def _names(table: dict[str, str], language: str) -> dict[str, int]:
    return {name: at for at, name in enumerate(table.get(language, "").split(), 1)}


def _day(year: int, month: int, day: int, end: int) -> tuple[str, int] | None:
    try:
        return f"@{date(year, month, day)}", end
    except ValueError:
        return None
