"""What a source says, in the form in which an answer is compared with it."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import pairwise
from typing import Any

from services.orchestrator.citing.figures import Figure, Kind, figures
from services.orchestrator.citing.units import unit_after
from services.orchestrator.citing.words import Word, content, key, language, words
from services.orchestrator.results import Page, Passage, Reply, Rows, Source
from services.runtime.expressions.folding import fold

# Of a source of any length this much is read; passages are far shorter.
_MAX_CHARS, _MAX_ROWS = 24_000, 500
# About two milliseconds of reading.
_LONG_CHARS, _LONG_CELLS = 1_500, 100
_SENTENCE_END = re.compile(r"(?<=[.!?…:;])\s+|\n+|\s\|\s(?=\|)")
_ORDINALS = {
    word: Decimal(number)
    for number, names in enumerate(
        "first primero primera primer|second segundo segunda|third tercero tercera tercer|fourth cuarto cuarta|"
        "fifth quinto quinta|sixth sexto sexta|seventh septimo septima|eighth octavo octava|ninth noveno novena|"
        "tenth decimo decima|eleventh undecimo|twelfth duodecimo|thirteenth|fourteenth|fifteenth".split("|"),
        start=1,
    )
    for word in names.split()
} | {
    word: Decimal(number)
    for number, names in (
        ("1", "one un una uno a an once sole single"), ("2", "twice double doble couple par pair both ambos ambas"),
        ("3", "triple thrice"), ("0.5", "half mitad medio media"), ("12", "dozen docena monthly mensual mensuales"),
        ("15", "quincena"), ("14", "fortnight"), ("10", "decade decada decena"), ("100", "century siglo"),
    )
    for word in names.split()
}  # fmt: skip
_ROMAN = re.compile(r"\b(?=[IVXL]{2,7}\b)X{0,3}(?:IX|IV|V?I{0,3}|XL)\b")
_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50}
_SHORT_DECADE = re.compile(r"(?:anos|decadas?(?: de los)?|the|['’])\s?([2-9]0)(?:s|\b)")
_RIGHT_ANGLE = re.compile(r"\b(?:right angles?|angulos? rectos?|perpendicular\w*)\b")
_NUMERAL = re.compile(r"\d+(?:\.\d+)*")
# Numbers of headings: no figures that an answer could have from there.
_NUMBERING = re.compile(r"(?:^|(?<=[>|/#]))\s*(?:\d{1,2}(?:\.\d+)+\.?|\d{1,2}[.)]|\d{1,2}(?=\s+[A-ZÁÉÍÓÚÑ]))(?=\s)")
_ONE = re.compile(r"\b(?:one|an?|una?|al|cada|each|per|por|first|primer)(?=\s)")
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LITERAL = re.compile(r"\d+(?:\.\d+)?")
_SCALES = (Decimal(1_000), Decimal(1_000_000), Decimal(1_000_000_000))


@dataclass(frozen=True)
class Sentence:
    """One sentence of a source. `keys`: of its content words; `whole`: it stands for all of them."""

    text: str
    words: tuple[Word, ...]
    keys: frozenset[str]
    whole: bool = False


@dataclass(frozen=True)
class SourceText:
    """A source that has been read.

    `loose`: numbers that it says in other ways than a figure: ordinals, Roman numerals, the ends of a range; `parts`:
    those in dates and codes, which have no unit.
    `columns`: numbers that stand under each other; `comparable`: the same, and the years of dates; `row_count`,
    `counts`: what can be counted in them; all empty and 0 for running text. `squeezed`: letters and digits alone.
    `numerals`: all numbers as written, as that of a section.
    `headings`: what stands over the text, and may be repeated with it.
    """

    text: str
    language: str
    sentences: tuple[Sentence, ...]
    keys: frozenset[str]
    figures: tuple[Figure, ...]
    loose: frozenset[Decimal]
    parts: frozenset[Decimal]
    squeezed: str
    numerals: frozenset[str]
    headings: tuple[str, ...] = ()
    tabular: bool = False
    columns: tuple[tuple[Decimal, ...], ...] = ()
    comparable: tuple[tuple[Decimal, ...], ...] = ()
    row_count: int = 0
    counts: frozenset[int] = frozenset()

    def __hash__(self) -> int:
        return hash(self.text)  # the rest would be gone through each time


def read(source: Source) -> SourceText:
    """Reads a source."""
    match source:
        case Passage():
            return _running(source.text, (source.title, source.section, source.document_id))
        case Page():
            return _running(source.snippet, (source.title, source.published))
        case Reply():
            return _running(source.text, (source.arguments_json,))
        case Rows():
            return _table(source)


def is_long(source: Source) -> bool:
    """Whether reading it takes longer than others may wait."""
    match source:
        case Passage() | Reply():
            return len(source.text) > _LONG_CHARS
        case Page():
            return len(source.snippet) > _LONG_CHARS
        case Rows():
            return len(source.rows) * len(source.columns) > _LONG_CELLS


def is_calculation(source: Source) -> bool:
    """Whether it is a result of our calculator."""
    return isinstance(source, Reply) and source.trusted and source.tool == "calculate"


def calculation(source: Source) -> tuple[str, str]:
    """Expression and result of the calculator."""
    text = source.text if isinstance(source, Reply) else ""
    expression, _, result = re.sub("≈", "=", text).rpartition("=")
    return expression.strip(), result.strip()


def read_text(text: str) -> SourceText:
    """Reads what is no source but may be repeated, such as a question."""
    return _running(text, ())


@lru_cache(maxsize=512)
def _running(text: str, headings: tuple[str, ...]) -> SourceText:
    """`headings`: what stands over the text."""
    text, about = text[:_MAX_CHARS], ". ".join(headings)
    sentences = tuple(_sentences(text))
    said, over = [word for sentence in sentences for word in sentence.words], words(about)
    found = (*figures(text), *figures(". ".join(_NUMBERING.sub("", one) for one in headings)), *_ones(text))
    keys = frozenset(one for sentence in sentences for one in sentence.keys) | {
        key(word.folded) for word in content(over)
    }
    whole = f"{text} {about}"
    return SourceText(
        text,
        language(said),
        sentences,
        keys,
        found,
        frozenset(_loose(whole, [*said, *over], found)),
        frozenset(part for one in found for part in _parts(one)),
        squeeze(whole),
        frozenset(_NUMERAL.findall(whole)),
        headings,
    )


def _sentences(text: str) -> Iterator[Sentence]:
    for piece in _SENTENCE_END.split(text):
        if piece.strip():
            found = tuple(words(piece))
            yield Sentence(piece, found, frozenset(key(word.folded) for word in content(found)))


def _table(rows: Rows) -> SourceText:
    kept = rows.rows[:_MAX_ROWS]
    lines = [" | ".join("" if value is None else str(value) for value in row) for row in kept]
    asked = f"{rows.statement} {rows.params_json}"
    text = "\n".join([" | ".join(rows.columns), *lines])[:_MAX_CHARS]
    numbers = [_number(value) for row in kept for value in row]
    found = [*figures(text), *(_figure(number) for number in numbers if number is not None)]
    said = words(text)
    loose = {Decimal(literal) for literal in _LITERAL.findall(asked)} | set(_loose(text, said, found))
    columns = tuple(
        tuple(number for value in column if (number := _number(value)) is not None)
        for column in zip(*kept, strict=False)
    )
    sentence = Sentence(text, tuple(said), frozenset(key(w.folded) for w in content(words(f"{text} {asked}"))))
    return SourceText(
        text,
        "",
        (sentence,),
        sentence.keys,
        tuple([*found, *figures(rows.params_json)]),
        frozenset(loose),
        frozenset(part for one in found for part in _parts(one)),
        squeeze(f"{text} {asked}"),
        frozenset(_NUMERAL.findall(text)),
        tabular=True,
        columns=columns,
        comparable=columns + tuple(_years_of(column) for column in zip(*kept, strict=False)),
        row_count=len(rows.rows),
        counts=frozenset(_counts(kept)) | {len(rows.rows)},
    )


def _counts(rows: Sequence[Sequence[Any]]) -> Iterator[int]:
    """What can be counted: different values of a column, rows with the same value, and rows without one."""
    for column in zip(*rows, strict=False):
        values = [json.dumps(value, default=str) for value in column]
        yield len(set(values))
        yield from (values.count(value) for value in set(values))
        yield sum(value != "null" for value in values)


def _years_of(column: Sequence[Any]) -> tuple[Decimal, ...]:
    return tuple(Decimal(value[:4]) for value in map(str, column) if _ISO_DAY.match(value))


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _figure(number: Decimal) -> Figure:
    exponent = number.as_tuple().exponent
    return Figure(Kind.NUMBER, str(number), 0, 0, number, places=max(0, -exponent) if isinstance(exponent, int) else 0)


def _ones(text: str) -> Iterator[Figure]:
    """`an hour`, `al mes`: one of the unit, without a number."""
    folded = fold(text)
    for match in _ONE.finditer(folded):
        unit, qualifier = unit_after(folded, match.end())
        if unit:
            yield Figure(Kind.NUMBER, match.group(), match.start(), match.end(), Decimal(1), unit, qualifier)


def _loose(text: str, said: Iterable[Word], found: Sequence[Figure]) -> Iterator[Decimal]:
    for word in said:
        if word.folded in _ORDINALS:
            yield _ORDINALS[word.folded]
        elif word.folded.endswith("s") and word.folded[:-1].isdecimal():
            yield from (Decimal(word.folded[:-1]), Decimal(word.folded[:-1][-2:]))
    if _RIGHT_ANGLE.search(fold(text)):
        yield Decimal(90)
    for match in _SHORT_DECADE.finditer(fold(text)):
        yield Decimal(1900 + int(match[1]))
    for match in _ROMAN.finditer(text):
        yield Decimal(_roman(match.group()))
    for one, following in pairwise(one for one in found if one.kind is Kind.NUMBER):
        # "30 to 50 thousand", "9.412 and 9.385 dollars"
        if one.value < _SCALES[0] <= following.value and 0 < following.start - one.end <= 8:
            yield from (one.value * scale for scale in _SCALES if following.value % scale == 0)


def _parts(figure: Figure) -> Iterator[Decimal]:
    """The numbers in a date, a code or a time."""
    match figure.kind:
        case Kind.DATE:
            yield from (Decimal(part) for part in (figure.day.year, figure.day.day) if part)
        case Kind.CODE if not figure.text.isupper():  # `Top-40`, and no identifier
            yield from (Decimal(digits) for digits in re.findall(r"\d{1,9}", fold(figure.text)))
        case Kind.TIME if figure.value % 60 == 0:
            yield figure.value / 60
        case _:
            return


def _roman(text: str) -> int:
    values = [_ROMAN_DIGITS[letter] for letter in text]
    return sum(
        -value if index + 1 < len(values) and value < values[index + 1] else value for index, value in enumerate(values)
    )


def squeeze(text: str) -> str:
    """Letters and digits alone, in lower case without accents."""
    return "".join(character for character in fold(text) if character.isalnum())
