"""Figures of a text, as an answer and its sources write them: numbers with units, dates, times of day, codes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache
from itertools import zip_longest

from services.orchestrator.citing import units
from services.orchestrator.citing.calendar_dates import Day, days
from services.orchestrator.citing.shares import shares
from services.runtime.expressions.folding import fold
from services.runtime.expressions.quantities import Quantity, quantities

# The unit of a number that names a part of a document.
SECTION = "section"


class Kind(Enum):
    """What a figure is."""

    NUMBER = "number"
    DATE = "date"
    TIME = "time"
    CODE = "code"


@dataclass(frozen=True)
class Figure:
    """One figure. `text` is as written; `start` and `end` are its place, without the unit.

    Of numbers: `value` and `unit` as written, `measure` the same in the smallest unit of its family, and `qualifier` of
    days. `places` are digits after the point, `rounded` is what the text calls it: `about`, `over`, `under`, or empty.
    `share`: a part of something in words, in per cent.
    """

    kind: Kind
    text: str
    start: int
    end: int
    value: Decimal = Decimal(0)
    unit: str = ""
    qualifier: str = ""
    day: Day = field(default_factory=Day)
    places: int = 0
    rounded: str = ""
    spelt: bool = False
    share: bool = False

    @cached_property
    def measure(self) -> tuple[str, Decimal]:
        """Family of the unit, empty without one, and the value in its smallest unit."""
        return units.measure(self.value, self.unit)

    @cached_property
    def last_place(self) -> int | None:
        """The power of ten of its last digit that is not 0; None where it has none."""
        exponent = self.value.normalize().as_tuple().exponent
        return exponent if isinstance(exponent, int) and self.value else None


# A letter first: `100k`, `19th` and `30kg` are numbers. A dot within is a code's only between digits: `v2.1`.
_CODE = re.compile(
    r"(?<![\w.])(?=[a-z][a-z/_-]*\d)[a-z]{1,12}(?:[-/_]?[a-z]{0,6}){0,2}[-/_]?\d[\da-z]*"
    r"(?:(?:[-/_][\da-z]+)|\.\d+){0,6}"
)
_PERIOD_CODE = re.compile(r"[qth][1-4]$")
_TIME = re.compile(
    r"(?<![\w.:,])([01]?\d|2[0-4])(?::([0-5]\d))?\s?(a\.?m\.?|p\.?m\.?)(?!\w)|(?<![\w.:,])([01]?\d|2[0-4]):([0-5]\d)(?![\w:])"
)
_ORDINAL = re.compile(r"(?<![\w.,])(\d{1,4})(?:st|nd|rd|th|er|º|ª|°)(?![\w°])")
_DECADE = re.compile(r"(?<![\w.,])(\d{3}0)['’]?s(?!\w)")
_SPAN_OF_YEARS = re.compile(r"(?<![\w.,])(1\d{3}|20\d\d)\s?[-–—/]\s?(\d\d)(?![\w.,]\d|\d)")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s?[-–—/×x]\s?(?=\d)")
_SECTION = re.compile(
    r"(?:\b(?:sections?|clauses?|articles?|chapters?|pages?|annex(?:es)?|seccion(?:es)?|clausulas?|articulos?|capitulos?|"
    r"apartados?|paginas?|anexos?|puntos?|art\.|cl\.|pag\.|p\.)|§)\s*(\d+(?:\.\d+)*)"
)
# What no number of a text is: addresses, code, marks, the answer's own list marks and section numbers, minus the text.
_NO_NUMBERS = re.compile(
    r"```.*?(?:```|$)|`[^`\n]*`|https?://\S+|\bwww\.\S+|\[[\d, ]{1,49}\]"
    r"|^[ \t]*(?:[#>*|-][ \t]*)*\(?\d{1,2}(?:\.\d{1,2}){0,3}[.)º][)]?(?=[\s*_]|$)|^#+[ \t]*\d[\d.]*(?=\s)"
    r"|(?:\b(?:paso|step|punto|opcion|opción|option|nota|note|tabla|table|figura|figure)\s+)\d{1,2}\b"
    r"|(?<=[(])[1-9][)]",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
# What of it may stand where no digits are: a word of it may be spelt like a number.
_ADDRESS_OR_CODE = re.compile(r"`|://|\bwww\.")
_BETWEEN = (
    r"\s+(?:a |an |the |un |una |los |las |el |de |every |cada )?(?:unos |about |unas )?"
    rf"(?:[€$£]\s?|(?:eur|usd|{units.CODES})\s)?$"
)
_ROUNDED = (
    (
        "under",
        re.compile(
            r"\b(?:nearly|almost|close to|less than|fewer than|below|under|up to|at most|casi|cerca de|menos de"
            rf"|por debajo de|hasta|como maximo|se acercan? a|rozan?"
            rf"|apenas llegan? a|just short of|barely|a little under){_BETWEEN}"
        ),
    ),
    (
        "over",
        re.compile(
            r"\b(?:over|more than|above|at least|exceed(?:s|ed|ing)?|mas de|por encima de|al menos|como minimo"
            rf"|supera(?:n|ron|ba|ban)?|pas(?:a|an|o|aron|aba|aban) de|just past|upwards of){_BETWEEN}"
        ),
    ),
    (
        "about",
        re.compile(
            r"(?:\b(?:about|around|approximately|approx\.?|roughly|some|circa|ca\.?|near|more or less|alrededor de"
            rf"|aproximada(?:mente)?|unos|unas|en torno a|mas o menos|rondan?){_BETWEEN}|[~≈]\s?$)"
        ),
    ),
)
_APPROXIMATELY_AFTER = re.compile(r"\s*(?:\w+\s)?(?:or so|aproximadamente|approximately|mas o menos|o asi)\b")
_PERCENT = re.compile(r"\s?(?:(?P<points>percentage points?)|per cent|por cien)\b")
_MEASURES = (
    r"(?P<unit>hours?|horas?|days?|dias?|weeks?|semanas?|months?|mes(?:es)?|years?|anos?|metros?|kilos?|litros?)"
)
_ELEVEN = re.compile(
    r"(?<![\w-])once(?= (?:segundos|minutos|horas|dias|semanas|meses|trimestres|anos|metros|kilos|litros)\b)"
)
_HALF_MORE = re.compile(rf"(?<![\w-])(?:an? |una? )?{_MEASURES} (?:and a half|y medi[ao])\b")
_HALF_ALONE = re.compile(rf"(?<![\w-])(?:half an?|medi[ao]) {_MEASURES}(?!\w)")
_HALF_BEHIND = re.compile(r"\s?\w+\s(?:and a half|y medi[ao])\b")
_NUMBER_CHARS, _HALF = 16, Decimal("0.5")
_DIGIT = re.compile(r"\d")
# Longer texts are read once, and not remembered.
_SHORT_CHARS = 1_500
_CUT = re.compile(r"…|\.\.\.")
_APART = ";"
_RANGE = re.compile(r"\s*(?:;|a|to|y|and|o|or|hasta|up to)\s*(?:[€$£]\s*)?")


def figures(text: str) -> tuple[Figure, ...]:
    """The figures of a text by kind; what stands in addresses, code, marks and list marks is left out."""
    return _short_figures(text) if len(text) <= _SHORT_CHARS else _figures(text)


def _figures(text: str) -> tuple[Figure, ...]:
    found: list[Figure] = []
    folded = fold(text)
    in_digits = _DIGIT.search(folded) is not None
    if in_digits:
        folded = _take(folded, text, found, _sections)
    if in_digits or _ADDRESS_OR_CODE.search(folded):
        folded = _NO_NUMBERS.sub(lambda match: "|" * len(match.group()), folded)
    for reader in _READERS if in_digits else _READERS_OF_WORDS:
        folded = _take(folded, text, found, reader)
    if in_digits:
        folded = _BETWEEN_DIGITS.sub(lambda match: _APART * len(match.group()), folded)
    found.extend(_with_unit_of_range(list(_numbers(folded, text)), folded))
    return tuple(found)


# Several checks read the same sentences.
_short_figures = lru_cache(maxsize=4_096)(_figures)


def _like_year(figure: Figure) -> bool:
    return figure.text.isdecimal() and len(figure.text) == 4 and figure.value < 2_101


def _with_unit_of_range(found: Sequence[Figure], folded: str) -> Iterator[Figure]:
    """The figures; of `5,000 to 50,000 EUR` both are in euros."""
    for one, following in zip_longest(found, found[1:]):
        if (
            following
            and following.unit
            and not one.unit
            and not _like_year(one)
            and _RANGE.fullmatch(folded, one.end, following.start)
        ):
            yield replace(one, unit=following.unit, qualifier=following.qualifier)
        else:
            yield one


def _take(folded: str, text: str, found: list[Figure], reader: Callable[[str, str], Iterable[Figure]]) -> str:
    """Adds what the reader finds, and blanks it out for those behind it."""
    for figure in reader(folded, text):
        found.append(figure)
        folded = folded[: figure.start] + "|" * (figure.end - figure.start) + folded[figure.end :]
    return folded


def _sections(folded: str, text: str) -> Iterator[Figure]:
    for match in _SECTION.finditer(folded):
        yield Figure(Kind.NUMBER, match[1], match.start(), match.end(), unit=SECTION)


def _dates(folded: str, text: str) -> Iterator[Figure]:
    for day, start, end in days(folded):
        yield Figure(Kind.DATE, text[start:end], start, end, day=day)


def _codes(folded: str, text: str) -> Iterator[Figure]:
    for match in _CODE.finditer(folded):
        if not _PERIOD_CODE.match(match.group()):
            yield Figure(Kind.CODE, text[match.start() : match.end()], match.start(), match.end())


def _times(folded: str, text: str) -> Iterator[Figure]:
    for match in _TIME.finditer(folded):
        hour, minute = int(match[1] or match[4]), int(match[2] or match[5] or 0)
        if match[3] and hour <= 12:
            hour = hour % 12 + (12 if match[3].startswith("p") else 0)
        value = Decimal(hour * 60 + minute)
        yield Figure(Kind.TIME, text[match.start() : match.end()], match.start(), match.end(), value=value)


def _years(folded: str, text: str) -> Iterator[Figure]:
    """`2001–02`, `1990s`."""
    for match in _SPAN_OF_YEARS.finditer(folded):
        first, second = int(match[1]), int(match[1][:2] + match[2])
        if first < second <= first + 50:
            written = text[match.start() : match.end()]
            yield Figure(Kind.NUMBER, written, match.start(), match.end(), value=Decimal(first))
            yield Figure(Kind.NUMBER, written, match.start(), match.end(), value=Decimal(second))
    for match in _DECADE.finditer(folded):
        yield Figure(Kind.NUMBER, text[match.start() : match.end()], match.start(), match.end(), Decimal(match[1]))


def _shares(folded: str, text: str) -> Iterator[Figure]:
    """Never quite exact: a third is 33 % to everybody."""
    for value, start, end in shares(folded):
        kind = _rounded(folded, start, end) or "about"
        yield Figure(Kind.NUMBER, text[start:end], start, end, value, "%", places=1, rounded=kind, share=True)


def _halves(folded: str, text: str) -> Iterator[Figure]:
    """`hora y media`, `an hour and a half`, `half an hour`: a number in whose place an article stands, or nothing."""
    for whole, pattern in ((1, _HALF_MORE), (0, _HALF_ALONE)):
        for match in pattern.finditer(folded):
            unit, _ = units.unit_after(folded, match.start("unit"))
            start, end = match.span()
            if unit and not quantities(folded[max(0, start - _NUMBER_CHARS) : start].split(",")[-1]):
                value, kind = Decimal(whole) + _HALF, _rounded(folded, start, end)
                yield Figure(Kind.NUMBER, text[start:end], start, end, value, unit, places=1, rounded=kind, spelt=True)


def _elevens(folded: str, text: str) -> Iterator[Figure]:
    """`once horas`: alone the word is English, and no number."""
    for match in _ELEVEN.finditer(folded):
        unit, qualifier = units.unit_after(folded, match.end())
        if unit:
            yield Figure(Kind.NUMBER, "once", match.start(), match.end(), Decimal(11), unit, qualifier, spelt=True)


def _ordinals(folded: str, text: str) -> Iterator[Figure]:
    for match in _ORDINAL.finditer(folded):
        yield Figure(Kind.NUMBER, text[match.start() : match.end()], match.start(), match.end(), Decimal(match[1]))


def _numbers(folded: str, text: str) -> Iterator[Figure]:
    for one in _apart(folded):
        written = text[one.start : one.end].strip(" .,;:")
        if _CUT.match(folded, one.end):  # a quotation that ends within the number
            continue
        unit, qualifier = (one.unit, "") if one.unit else units.unit_after(folded, one.end)
        unit = unit or _percent(folded, one.end) or units.currency_before(folded, one.start)
        half = _HALF_BEHIND.match(folded, one.end) if unit else None
        yield Figure(
            Kind.NUMBER,
            written,
            one.start,
            one.end,
            one.value + (_HALF if half else 0),
            unit,
            qualifier,
            places=_places(written) or int(half is not None),
            rounded=_rounded(folded, one.start, one.end),
            spelt=not any(character.isdigit() for character in written),
        )


def _rounded(folded: str, start: int, end: int) -> str:
    before = folded[max(0, start - 40) : start]
    for said, pattern in _ROUNDED:
        if pattern.search(before):
            return said
    return "about" if _APPROXIMATELY_AFTER.match(folded, end) else ""


def _percent(folded: str, end: int) -> str:
    match = _PERCENT.match(folded, end)
    return "" if match is None else "percentage point" if match["points"] else "%"


def _apart(folded: str) -> Iterator[Quantity]:
    """The quantities of a text. `five and ten` are two, `thirty-five` and `treinta y cinco` are one."""
    for one in quantities(folded):
        left, joined, right = folded[one.start : one.end].partition(" and ")
        if not joined:
            left, joined, right = folded[one.start : one.end].partition(" y ")
        if not joined:
            yield one
            continue
        first, second = quantities(left), quantities(right)
        tens = len(first) == 1 and (first[0].value >= 100 or (joined == " y " and first[0].value in range(30, 100, 10)))
        if tens or len(first) != 1 or len(second) != 1 or first[0].value + second[0].value != one.value:
            yield one
            continue
        moved = one.start + len(left) + len(joined)
        yield Quantity(first[0].value, "", one.start, one.start + len(left))
        yield Quantity(second[0].value, one.unit, moved + second[0].start, one.end)


def _places(written: str) -> int:
    """Digits after the decimal point of a number as written."""
    match = re.search(r"[.,](\d+)\D*$", written)
    return len(match[1]) if match and len(match[1]) != 3 else 0


# In this order: what one has taken the next ones do not see. Without digits only some can find anything.
_READERS = (_dates, _codes, _times, _years, _shares, _halves, _elevens, _ordinals)
_READERS_OF_WORDS = (_dates, _shares, _halves, _elevens)
