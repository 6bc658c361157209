"""Numbers, amounts and thresholds as people write them, in Spanish and English."""

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation

from services.runtime.expressions.dates import date_ranges
from services.runtime.expressions.folding import fold
from services.runtime.expressions.spelt import spelt_numbers

_UNITS = {
    "€": "EUR", "eur": "EUR", "euro": "EUR", "$": "USD", "usd": "USD", "dolar": "USD", "dollar": "USD",
    "£": "GBP", "gbp": "GBP", "pound": "GBP", "libra": "GBP", "%": "%", "por ciento": "%", "percent": "%",
}  # fmt: skip
_SCALES = {
    "k": 1_000, "mil": 1_000, "thousand": 1_000, "miles": 1_000, "m": 1_000_000, "mm": 1_000_000, "mio": 1_000_000,
    "million": 1_000_000, "millon": 1_000_000, "bn": 1_000_000_000, "billion": 1_000_000_000,
    "mil millon": 1_000_000_000, "tn": 10**12, "trillion": 10**12, "billon": 10**12, "dozen": 12, "docena": 12,
}  # fmt: skip

_SCALE = (
    r"(?:(?P<scale>k|mm?|mil millones|mil(?:es)?|thousand|mill?i?on(?:es|s)?|mio|bn|tn|billions?|trillions?|"
    r"billon(?:es)?|dozens?|docenas?)\b\.?(?P<half>\s+(?:y medio|y media|and a half)\b)?)?"
)
_UNIT = (
    r"(?:\s*(?:de\s+|of\s+)?(?P<unit>€|\$|£|%|euros?\b|eur\b|usd\b|gbp\b|dolar(?:es)?\b|"
    r"dollars?\b|pounds?\b|libras?\b|por ciento\b|percent\b))?"
)
_DIGITS = re.compile(
    rf"(?<![\w.,/-])(?P<before>€|\$|£|eur\s|usd\s)?\s?(?P<number>\d{{1,18}}(?:[.,' ]\d{{3}}(?!\d))*(?:[.,]\d+)?)"
    rf"(?P<vulgar>[¼½¾])?\s?"
    rf"(?:(?P<k>k|m|mm|bn)(?=€|\$|£))?{_SCALE}{_UNIT}(?![\w/-]|[.,]\d)"
)
_VULGAR = {"¼": Decimal("0.25"), "½": Decimal("0.5"), "¾": Decimal("0.75")}
_HALF = Decimal("0.5")
_SPELT_UNIT = re.compile(r"\s*" + _UNIT.removeprefix(r"(?:\s*").removesuffix(")?"))


@dataclass(frozen=True)
class Quantity:
    """A number as written; `unit` is an ISO currency, `%` or empty. `start` and `end` are its place in the text."""

    value: Decimal
    unit: str
    start: int
    end: int
    # The power of ten that it was written with in words or letters: a million of `two million`.
    scale: int = 1


def parse_number(text: str) -> Decimal | None:
    """`1.234,5`, `1,234.5`, `100.000`, `1 000`: the value, or None. A lone separator before three digits groups."""
    digits = text.replace(" ", "").replace("'", "")
    last = max(digits.rfind("."), digits.rfind(","))
    if last >= 0:
        mark = digits[last]
        whole, fraction = digits[:last], digits[last + 1 :]
        other = "," if mark == "." else "."
        grouped = len(fraction) == 3 and whole.strip("0") != "" and other not in whole
        digits = re.sub(r"[.,]", "", digits) if grouped else f"{re.sub('[.,]', '', whole)}.{fraction}"
    try:
        return Decimal(digits)
    except InvalidOperation:
        return None


def _unit_of(text: str | None) -> str:
    if not text:
        return ""
    key = text.strip()
    return _UNITS.get(key) or _UNITS.get(key.removesuffix("es")) or _UNITS.get(key.removesuffix("s"), "")


def _scale_of(text: str | None) -> int:
    if not text:
        return 1
    return _SCALES.get(text) or _SCALES.get(text.removesuffix("es")) or _SCALES.get(text.removesuffix("s"), 1)


def quantities(text: str) -> list[Quantity]:
    """Every number of a text, digits or words, in order. A lone `one` or `un` is an article and no number."""
    folded = fold(text)
    found: list[Quantity] = []
    for match in _DIGITS.finditer(folded):
        value = parse_number(match["number"])
        if value is None:
            continue
        unit = _unit_of(match["unit"]) or _unit_of(match["before"])
        scale = _scale_of(match["k"] or match["scale"])
        value = (value + _VULGAR.get(match["vulgar"] or "", 0) + (_HALF if match["half"] else 0)) * scale
        found.append(Quantity(value, unit, match.start(), match.end(), scale))
    for one in spelt_numbers(folded):
        if any(other.start <= one.start < other.end for other in found):
            continue
        tail = _SPELT_UNIT.match(folded, one.end)
        end = tail.end() if tail else one.end
        found.append(Quantity(one.value, _unit_of(tail["unit"]) if tail else "", one.start, end, one.scale))
    return sorted(found, key=lambda one: one.start)


@dataclass(frozen=True)
class Comparison:
    """A threshold. `operator` is one of > >= < <= = or `between` (both ends included); spans cover its words."""

    operator: str
    quantity: Quantity
    upper: Quantity | None
    start: int
    end: int


# Negated forms first: "no more than" holds "more than".
_BEFORE = [
    ("<=", r"(?:no|not) more than|no mas de|at most|up to|maximum of|como maximo|maximo de|hasta|<=|≤"),
    (
        ">=",
        (
            r"(?:no|not) (?:less|fewer) than|no menos de|at least|minimum of|al menos|como minimo|"
            r"minimo de|a partir de|por lo menos|>=|≥"
        ),
    ),
    (
        ">",
        (
            r"more than|over|above|greater than|higher than|larger than|bigger than|exceed(?:s|ed|"
            r"ing)?|beyond|mas de|mas grandes? (?:de|que)|mayor(?:es)? (?:de|que|a)|"
            r"superior(?:es)? (?:a|de)|por encima de|supere?(?:a|n|an|ar|aron)?|excedan?|exceden?|>"
        ),
    ),
    (
        "<",
        (
            r"less than|fewer than|under|below|lower than|smaller than|menos de|inferior(?:es)? (?:a|"
            r"de)|menor(?:es)? (?:de|que|a)|por debajo de|<"
        ),
    ),
    ("=", r"exactly|equal to|exactamente|igual a"),
]
_BEFORE_ENDS = [(op, re.compile(rf"(?<!\w)(?:{words})(?:\s+(?:los|las|the|a|un|una))?\s*$")) for op, words in _BEFORE]
_AFTER = [
    (">=", re.compile(r"\s*(?:o mas|or more|or above|\+)(?!\w)")),
    ("<=", re.compile(r"\s*(?:o menos|or less)(?!\w)")),
]
_BETWEEN = re.compile(r"(?<!\w)(?:between|entre|from|de|desde)\s+(?:los\s+|las\s+)?$")
_AND = re.compile(r"\s*(?:y|and|to|a|hasta)\s+(?:los\s+|las\s+)?$")


def comparisons(text: str) -> list[Comparison]:
    """Thresholds on numbers, in order; years and days are left to `date_ranges`."""
    folded = fold(text)
    taken = [(one.start, one.end) for one in date_ranges(text, date(2000, 1, 1))]
    numbers = [q for q in quantities(text) if not any(start <= q.start < end for start, end in taken)]
    found: list[Comparison] = []
    skip = False
    for index, number in enumerate(numbers):
        if skip:
            skip = False
            continue
        before = folded[max(0, number.start - 40) : number.start]
        following = numbers[index + 1] if index + 1 < len(numbers) else None
        opening = _BETWEEN.search(before)
        if opening and following and _AND.fullmatch(folded[number.end : following.start]):
            low = _with_unit_of(number, following)
            start = number.start - (len(before) - opening.start())
            found.append(Comparison("between", low, following, start, following.end))
            skip = True
            continue
        found.extend(_threshold(folded, before, number))
    return found


def _threshold(folded: str, before: str, number: Quantity) -> list[Comparison]:
    for operator, pattern in _AFTER:
        if match := pattern.match(folded, number.end):
            return [Comparison(operator, number, None, number.start, match.end())]
    for operator, pattern in _BEFORE_ENDS:
        if match := pattern.search(before):
            return [Comparison(operator, number, None, number.start - (len(before) - match.start()), number.end)]
    return []


def _with_unit_of(number: Quantity, other: Quantity) -> Quantity:
    """`between 1 and 2 M€`: the first number is in the unit and size of the second."""
    value = number.value
    if number.scale == 1 and value < 1000 and not number.unit and value * other.scale <= other.value:
        value *= other.scale
    return Quantity(value, number.unit or other.unit, number.start, number.end, number.scale)
