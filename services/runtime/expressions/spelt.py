"""Numbers written out in words, by the grammar of each language: `mil doscientos millones`, `one and a half million`.

A grammar and not a sum of words: `five and ten` are two numbers, `treinta y cinco` is one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

_WORD = re.compile(r"[^\W\d_]+")
_CONTEXT = 12
_GAP = re.compile(r"\s+|-|\s*-\s*")
_COMMA = re.compile(r",?\s+|-")


def _counted(words: str, first: int, step: int) -> dict[str, int]:
    return {word: first + step * at for at, word in enumerate(words.split())}


_SPANISH_SMALL = _counted(
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete "
    "veintiocho veintinueve",
    0,
    1,
) | {"un": 1, "una": 1, "veintiun": 21, "veintiuna": 21}
_SPANISH_TENS = _counted("treinta cuarenta cincuenta sesenta setenta ochenta noventa", 30, 10)
_SPANISH_HUNDREDS = {
    **_counted("cien doscientos trescientos cuatrocientos quinientos seiscientos setecientos", 100, 100),
    **_counted("ochocientos novecientos", 800, 100),
    **_counted("doscientas trescientas cuatrocientas quinientas seiscientas setecientas", 200, 100),
    **_counted("ochocientas novecientas", 800, 100),
    "ciento": 100,
}
_SPANISH_LARGE = {"millon": 10**6, "millones": 10**6, "billon": 10**12, "billones": 10**12}
_GROUPS = {"docena": 12, "docenas": 12, "centenar": 100, "centenares": 100, "millar": 1000, "millares": 1000}
_ENGLISH_SMALL = _counted(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
    0,
    1,
)
_ENGLISH_TENS = _counted("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
_ENGLISH_LARGE = {"trillion": 10**12, "billion": 10**9, "million": 10**6, "thousand": 10**3}
_HALF = Decimal("0.5")
# Words that are articles, or something else, by themselves.
_LONE = frozenset("un una uno one once a".split())


@dataclass(frozen=True)
class Spelt:
    """A number in words. `scale` is the power of ten of its last word, 1 for most: `two million` has 1,000,000."""

    value: Decimal
    start: int
    end: int
    scale: int = 1


def spelt_numbers(folded: str) -> Iterator[Spelt]:
    """The numbers in words of a folded text, in order."""
    if _STARTS.isdisjoint(_WORD.findall(folded)):  # most texts
        return
    words = list(_WORD.finditer(folded))
    at = 0
    while at < len(words):
        if words[at][0] not in _STARTS:
            at += 1
            continue
        readers = (reader(folded, words, at) for reader in (_Spanish, _English) if words[at][0] in reader.STARTS)
        found = max((one for reader in readers if (one := reader.read())), key=lambda one: one[1], default=None)
        if found is None:
            at += 1
            continue
        value, end, scale = found
        if not (end == at + 1 and words[at][0] in _LONE):
            yield Spelt(value, words[at].start(), words[end - 1].end(), scale)
        at = end


_Found = tuple[Decimal, int, int]


class _Reader:
    """Reads the number that begins at one word. Numbers are read as (value, place of the next word)."""

    STARTS: frozenset[str] = frozenset()
    HALVES: tuple[tuple[str, ...], ...] = ()
    POINT = ""
    AND = ""

    def __init__(self, text: str, words: list[re.Match[str]], at: int) -> None:
        self._text, self._words, self._at = text, words, at
        before = text[max(0, words[at].start() - _CONTEXT) : words[at].start()]
        self._between = bool(re.search(r"\b(?:between|entre)\s+$", before))
        self._after_por = before.endswith("por ")

    def read(self) -> _Found | None:
        """The value, the place behind it and the scale of its last word."""
        raise NotImplementedError

    def _word(self, at: int, *, comma: bool = False) -> str:
        """The word at a place, if only a blank or a hyphen stands before it; empty otherwise."""
        if at >= len(self._words):
            return ""
        if at > self._at:
            gap = self._text[self._words[at - 1].end() : self._words[at].start()]
            if not (_COMMA if comma else _GAP).fullmatch(gap):
                return ""
        return self._words[at][0]

    def _is(self, at: int, words: tuple[str, ...]) -> bool:
        return all(self._word(at + index) == word for index, word in enumerate(words))

    def _half_at(self, at: int) -> int:
        """How many words say `and a half` at a place; 0 where none do."""
        return next((len(words) for words in self.HALVES if self._is(at, words)), 0)

    def _parts_a_range(self, at: int) -> bool:
        """Whether `and` at a place joins the ends of a range: after `between`, unless another one follows."""
        return self._between and not re.match(
            rf"\W*(?:\w+\W+){{1,4}}?{self.AND}\s+\w+",
            self._text[self._words[at].end() : self._words[at].end() + 80].split(".", 1)[0],
        )


class _Spanish(_Reader):
    STARTS = frozenset(
        {*_SPANISH_SMALL, *_SPANISH_TENS, *_SPANISH_HUNDREDS, "mil", "millon", "billon", "medio", "media"}
    )
    HALVES = (("y", "medio"), ("y", "media"))
    AND = "y"

    def read(self) -> _Found | None:
        if self._after_por and self._word(self._at) == "ciento":
            return None
        if part := self._part_of():
            return part
        value, end = self._below_million(self._at)
        if end == self._at and self._word(end) in ("millon", "billon"):
            value = 1
        elif end == self._at:
            return None
        if self._word(end) == "coma" and (decimals := self._decimals(end + 1)):
            return self._scaled(Decimal(f"{value}.{decimals[0]}"), decimals[1])
        if size := _GROUPS.get(self._word(end)):
            half = self._half_at(end + 1)
            return Decimal(value * size) + (_HALF * size if half else 0), end + 1 + half, 1
        if self._word(end) in _SPANISH_LARGE:
            return self._large(value, end)
        if half := self._half_at(end):
            return self._scaled(value + _HALF, end + half) if value < 1000 else (value * Decimal("1.5"), end + half, 1)
        return Decimal(value), end, 1000 if self._words[end - 1][0] == "mil" else 1

    def _part_of(self) -> _Found | None:
        """`Medio millón`, `media docena`, `un cuarto de millón`, `tres cuartos de millón`."""
        at, first = self._at, self._word(self._at)
        sizes = {**_GROUPS, **_SPANISH_LARGE}
        if first in ("medio", "media"):
            size = sizes.get(self._word(at + 1))
            return (_HALF * size, at + 2, size) if size else None
        quarters = {"un": "cuarto", "tres": "cuartos"}.get(first)
        if quarters and self._is(at + 1, (quarters, "de")) and (size := sizes.get(self._word(at + 3))):
            return Decimal(_SPANISH_SMALL[first] * size) / 4, at + 4, size
        return None

    def _large(self, value: int, end: int) -> _Found:
        """From a word such as `millones` on, the smaller ones after it included."""
        scale = _SPANISH_LARGE[self._word(end)]
        total, end = Decimal(value * scale), end + 1
        if half := self._half_at(end):
            return total + _HALF * scale, end + half, scale
        rest, after = self._below_million(end)
        if scale == 10**12 and after > end and self._word(after) in ("millon", "millones"):
            total, end = total + rest * 10**6, after + 1
            rest, after = self._below_million(end)
            scale = 10**6
        return (total + rest, after, 1) if after > end else (total, end, scale)

    def _scaled(self, value: Decimal, end: int) -> _Found:
        for words, scale in (
            (("mil", "millones"), 10**9),
            (("mil",), 1000),
            (("millones",), 10**6),
            (("billones",), 10**12),
        ):
            if self._is(end, words):
                return value * scale, end + len(words), scale
        return value, end, 1

    def _decimals(self, at: int) -> tuple[str, int] | None:
        digits = ""
        while self._word(at) == "cero":
            digits, at = f"{digits}0", at + 1
        value, end = self._below_thousand(at)
        return (f"{digits}{value}", end) if end > at else (digits, at) if digits else None

    def _below_million(self, at: int) -> tuple[int, int]:
        value, end = self._below_thousand(at)
        if self._word(end) == "mil" and (value > 0 or end == at):
            rest, after = self._below_thousand(end + 1)
            return (value or 1) * 1000 + rest, after
        return value, end

    def _below_thousand(self, at: int) -> tuple[int, int]:
        value = _SPANISH_HUNDREDS.get(self._word(at), 0)
        end = at + bool(value)
        if self._word(at) == "cien":
            return value, end
        tens, small = _SPANISH_TENS.get(self._word(end)), _SPANISH_SMALL.get(self._word(end))
        if tens:
            unit = _SPANISH_SMALL.get(self._word(end + 2), 0) if self._word(end + 1) == "y" else 0
            joined = 0 < unit < 10 and not self._parts_a_range(end + 1)
            return (value + tens + unit, end + 3) if joined else (value + tens, end + 1)
        if small is None or (value and not small):
            return value, end
        return value + small, end + 1


class _English(_Reader):
    STARTS = frozenset({*_ENGLISH_SMALL, *_ENGLISH_TENS, "a", "half", "quarter"})
    HALVES = (("and", "a", "half"), ("and", "half"))
    AND = "and"

    def read(self) -> _Found | None:
        if part := self._part_of():
            return part
        value, end = self._group(self._at)
        if end == self._at:
            return None
        if self._word(end) == "point" and (decimals := self._decimals(end + 1)):
            scale = _ENGLISH_LARGE.get(self._word(decimals[1]), 0)
            return Decimal(f"{value}.{decimals[0]}") * (scale or 1), decimals[1] + bool(scale), scale or 1
        if self._word(end) == "dozen":
            return Decimal(value * 12), end + 1, 1
        if half := self._half_at(end):
            scale = _ENGLISH_LARGE.get(self._word(end + half), 0)
            return (value + _HALF) * (scale or 1), end + half + bool(scale), scale or 1
        if 10 < value < 21 and (year := self._below_hundred(end)) and year[0] > 9:
            return Decimal(value * 100 + year[0]), year[1], 1
        return self._descending(value, end)

    def _part_of(self) -> _Found | None:
        """`Half a million`, `a half million`, `a quarter of a million`, `three quarters of a million`."""
        at = self._at
        for words, share in (
            (("half", "a"), "0.5"), (("a", "half"), "0.5"), (("a", "quarter", "of", "a"), "0.25"),
            (("quarter", "of", "a"), "0.25"), (("three", "quarters", "of", "a"), "0.75"),
        ):  # fmt: skip
            name = self._word(at + len(words))
            if self._is(at, words) and (name == "dozen" or name in _ENGLISH_LARGE):
                scale = _ENGLISH_LARGE.get(name, 12)
                return Decimal(share) * scale, at + len(words) + 1, scale if scale > 12 else 1
        return None

    def _descending(self, value: int, end: int) -> _Found:
        total, last, scale = 0, 10**15, 1
        while True:
            size = _ENGLISH_LARGE.get(self._word(end), 0)
            if not size or size >= last:
                return Decimal(total + value), end, scale if total and not value else 1
            total, last, end, value, scale = total + value * size, size, end + 1, 0, size
            if half := self._half_at(end):
                return total + _HALF * size, end + half, size
            joined = self._word(end) == "and"
            if joined and self._parts_a_range(end):
                return Decimal(total), end, scale
            at = end + joined
            group, after = self._group(at) if joined or self._word(end, comma=True) else (0, at)
            following = _ENGLISH_LARGE.get(self._word(after), 0)
            # `One thousand and five`, but `one thousand and five thousand` are two.
            if after == at or following >= last or (joined and (group > 99 or following)):
                return Decimal(total), end, scale
            value, end = group, after
            if not following:
                return Decimal(total + value), end, 1

    def _group(self, at: int) -> tuple[int, int]:
        """A number below a thousand, or hundreds such as `twenty-five hundred`."""
        if self._word(at, comma=at > self._at) == "a" and self._word(at + 1) in ("hundred", "dozen", *_ENGLISH_LARGE):
            value, end = 1, at + 1
        else:
            value, end = self._below_hundred(at, comma=at > self._at)
        if end == at or self._word(end) != "hundred":
            return value, end
        value, end = value * 100, end + 1
        joined = self._word(end) == "and"
        if joined and (self._parts_a_range(end) or self._half_at(end)):
            return value, end
        rest, after = self._below_hundred(end + joined)
        if after == end + joined or self._word(after) == "hundred":
            return value, end
        return value + rest, after

    def _below_hundred(self, at: int, *, comma: bool = False) -> tuple[int, int]:
        word = self._word(at, comma=comma)
        if word in _ENGLISH_TENS:
            unit = _ENGLISH_SMALL.get(self._word(at + 1), 0)
            return (_ENGLISH_TENS[word] + unit, at + 2) if 0 < unit < 10 else (_ENGLISH_TENS[word], at + 1)
        return (_ENGLISH_SMALL[word], at + 1) if word in _ENGLISH_SMALL else (0, at)

    def _decimals(self, at: int) -> tuple[str, int] | None:
        digits = ""
        while (value := self._below_hundred(at))[1] > at:
            digits, at = f"{digits}{value[0]}", value[1]
        return (digits, at) if digits else None


# Words with which a number can begin.
_STARTS = _Spanish.STARTS | _English.STARTS
