"""What a question asks of a database: how it counts, orders and groups, before any column is chosen."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from services.runtime.expressions.dates import DateRange, date_ranges
from services.runtime.expressions.quantities import Comparison, comparisons, quantities
from services.understudy.words import content, fold, stem

_COUNT = re.compile(
    r"\b(?:how many|number of|count(?: of)?|cuant[oa]s|numero (?:total )?de|cantidad de|"
    r"recuento(?: de)?|cuenta(?: de)?)\b(?P<rest>(?:\W+\w+){0,4})"
)
_SUM = re.compile(
    r"\b(?:sum(?: of)?|suma(?:r|n)?|how much|cuanto|total(?:es)?|totals|gasto|facturado|spent|"
    r"spend|importe|monto|value of|valor de|(?:what|which) (?:amount|value)|(?:amount|add up|sum up|come) to|"
    r"ascienden?)\b"
)
_IN_TOTAL = re.compile(r"\b(?:in total|en total|altogether)\b")
_AVERAGE = re.compile(r"\b(?:average|mean|avg|promedio|media|medio|por termino medio)\b")
_MOST = (
    r"largest|highest|biggest|greatest|most expensive|maximum|max|mayor(?:es)?|maxim[oa]s?|"
    r"mas (?:grandes?|alt[oa]s?|car[oa]s?|elevad[oa]s?|largo|poblad[oa]s?)|longest|"
    r"most populous|top"
)
_LEAST = (
    r"smallest|lowest|cheapest|minimum|min|menor(?:es)?|minim[oa]s?|mas (?:pequen[oa]s?|"
    r"baj[oa]s?|barat[oa]s?|corto)|shortest|least"
)
_LATEST = r"latest|most recent|newest|last|ultim[oa]s?|mas recientes?|mas nuev[oa]s?"
_OLDEST = r"oldest|earliest|first|primer(?:[oa]s?)?|mas antigu[oa]s?"
_SUPERLATIVE = re.compile(rf"\b(?:(?P<most>{_MOST})|(?P<least>{_LEAST})|(?P<latest>{_LATEST})|(?P<oldest>{_OLDEST}))\b")
_TOP_NUMBER = re.compile(
    r"\b(?:top|los|las|the)\s+(?P<n>\d{1,3})\b|\b(?P<n2>\d{1,3})\s+(?:largest|biggest|highest|"
    r"top|latest|most|mayores|ultim)"
)
_WHO_HAS = re.compile(
    r"\b(?:which|what|que|cual(?:es)?(?: es| son)?(?: el| la| los| las)?|en que|"
    r"in which)\s+(?P<who>\w+)\b.*?\b(?:(?P<most>most|mas|mayor|highest|largest|greatest|"
    r"more)|(?P<least>fewest|least|menos|menor|lowest|smallest))\s+(?:numero de |cantidad de |"
    r"number of )?(?P<what>\w+)?"
)
_GROUP = re.compile(
    r"\b(?:por cada|para cada|for each|per|by|each|cada|por|segun|grouped by|"
    r"agrupad[oa]s? por|broken down by|desglosad[oa]s? por)\s+(?:(?:el|la|los|las|the|their|"
    r"su|its)\s+)?(?P<noun>\w+)"
)
_LIST = re.compile(
    r"\b(?:list|show|which|what|lista(?:r|me|do)?|muestra(?:me)?|ensena(?:me)?|que|"
    r"cual(?:es)?|dame|give me|who|quien(?:es)?)\b"
)
_SUBJECT = re.compile(
    r"\b(?:which|what|que|cuales(?: son)?(?: los| las)?|list(?: of)?(?: the)?|lista(?:r|"
    r"me)?(?: de)?(?: los| las)?)\s+(?P<noun>\w+)"
)
_PERIODS = {
    "ano": "year",
    "anos": "year",
    "year": "year",
    "anual": "year",
    "annual": "year",
    "mes": "month",
    "month": "month",
    "trimestre": "quarter",
    "quarter": "quarter",
}


@dataclass(frozen=True)
class Request:
    """What is asked. `plain` is the folded question with thresholds and dates blanked, positions kept.

    `subject` is the noun after `which`, `ranked` the one that has most of `ranked_by`.
    `order` is most, least, latest, oldest or empty; `group_word` a noun, `period` year, month, quarter or empty.
    """

    question: str
    plain: str
    words: list[str]
    comparisons: list[Comparison]
    dates: list[DateRange]
    counts: bool
    counted: list[str]
    sums: bool
    averages: bool
    order: str
    order_at: tuple[int, int]
    limit: int
    group_words: list[str]
    subject: str
    period: str
    ranked: str
    ranked_by: str
    lists: bool


def read_request(question: str, today: date) -> Request:
    """Reads a question in Spanish or English."""
    limits, dates = comparisons(question), date_ranges(question, today)
    plain = blank(fold(question), [(one.start, one.end) for one in (*limits, *dates)])
    count = _COUNT.search(plain)
    superlative = _SUPERLATIVE.search(plain)
    top = _TOP_NUMBER.search(plain)
    who = None if count else _WHO_HAS.search(plain)
    subject = _SUBJECT.search(plain)
    nouns = [match["noun"] for match in _GROUP.finditer(plain)]
    rest = _IN_TOTAL.sub(" ", plain)
    words = [stem(word) for word in content(plain)]
    return Request(
        question=question,
        plain=plain,
        words=words,
        comparisons=limits,
        dates=dates,
        counts=count is not None,
        counted=[stem(word) for word in content(count["rest"])] if count else [],
        sums=bool(_SUM.search(rest)),
        averages=bool(_AVERAGE.search(plain)),
        order=superlative.lastgroup or "" if superlative else "",
        order_at=superlative.span() if superlative else (0, 0),
        limit=min(100, int(top["n"] or top["n2"])) if top else 0,
        subject=stem(subject["noun"]) if subject else "",
        group_words=[stem(noun) for noun in nouns if noun not in _PERIODS],
        period=next((_PERIODS[noun] for noun in nouns if noun in _PERIODS), ""),
        ranked=stem(who["who"]) if who else "",
        ranked_by=stem(who["what"] or "") if who else "",
        lists=bool(_LIST.search(plain)),
    )


def blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """`text` with spaces in place of its parts from one place to another."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _free(found: list[tuple[str, int, int]], question: str) -> list[tuple[str, int, int]]:
    """What is not part of a date or a number."""
    taken = [(one.start, one.end) for one in (*quantities(question), *date_ranges(question, date(2000, 1, 1)))]
    return [one for one in found if not any(start < one[2] and one[1] < end for start, end in taken)]


_QUOTED = re.compile(r"[\"“«']([^\"”»'\n]{2,80})[\"”»']")
_CODE = re.compile(r"(?<![\w-])(?=[\w/-]*\d)(?:[A-Z]{1,6}[-/]?\d[\w/-]*|[A-Z]{1,8}(?:[-/][A-Z0-9]+)+)(?![\w-])")
_NAMING = re.compile(r"[^\W_]+\s+$")
_PROPER = re.compile(
    r"(?<![.?!¿¡:\w])(?<=[\w,;)] )[A-ZÁÉÍÓÚÑ][\wáéíóúñ&.'-]*(?:\s+(?:(?:de|del|of|y|"
    r"&)\s+)?[A-ZÁÉÍÓÚÑ][\wáéíóúñ&'-]*)*"
)


def quoted(question: str) -> list[tuple[str, int, int]]:
    """Texts in quotation marks, with their places."""
    return [(match[1].strip(), *match.span()) for match in _QUOTED.finditer(question)]


def codes(question: str) -> list[tuple[str, int, int]]:
    """Codes such as `AB-2024-17`, with their places. Quarters and amounts are none."""
    return _free([(match[0], *match.span()) for match in _CODE.finditer(question)], question)


def without_codes(question: str) -> str:
    """The rest of a question that names codes, also without what kind of thing has each, as in `contract AB-1`."""
    rest, at = "", 0
    for _, start, end in codes(question):
        rest += _NAMING.sub(" ", question[at:start]) + " "
        at = end
    return rest + question[at:]


def proper_nouns(question: str) -> list[tuple[str, int, int]]:
    """Capitalised names inside a sentence, with their places."""
    return _free([(match[0].rstrip(".,"), *match.span()) for match in _PROPER.finditer(question)], question)


def shape(code: str) -> str:
    """`AB-2020-17` → `A-9-9`: codes of one kind have one shape."""
    return re.sub(r"[0-9]+", "9", re.sub(r"[A-Za-z]+", "A", code))
