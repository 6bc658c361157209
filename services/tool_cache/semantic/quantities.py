"""Numbers in one form: 1,500,000 and "1.5 M", 23 and "veintitrés".

A number that is misread could be taken for another one, so only plain forms are read, by the grammar of each language:
digits with their groups, a scale (k, M, million, mil), cardinals in words. All else stays as it was written. (A library
that was tried reads "dos coma cinco millones" as 2,5000000.)
"""

import re
from collections.abc import Sequence
from decimal import Decimal

from services.tool_cache.semantic.tokens import Token

_SCALES = {
    "en": {"k": 3, "K": 3, "M": 6, "bn": 9, "thousand": 3, "million": 6, "billion": 9},
    "es": {"k": 3, "K": 3, "M": 6, "mil": 3, "millon": 6, "millones": 6},
}
_PLAIN = re.compile(r"[+-]?\d+")
_GROUPED = {"en": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+"), "es": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")}
# Three decimals are left alone: they are thousands to some who write this language.
_DECIMAL = re.compile(r"[+-]?\d+[.,](\d{1,2}|\d{4,})")
_ATTACHED = re.compile(r"(k|K|M|bn)$")


def _counted(words: str, first: int, step: int) -> dict[str, int]:
    return {word: first + step * at for at, word in enumerate(words.split())}


_UNITS = {
    "en": _counted(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen",
        0,
        1,
    ),
    "es": _counted(
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete "
        "dieciocho diecinueve veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete "
        "veintiocho veintinueve",
        0,
        1,
    )
    | {"veintiun": 21},
}
_TENS = {
    "en": _counted("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10),
    "es": _counted("treinta cuarenta cincuenta sesenta setenta ochenta noventa", 30, 10),
}
_HUNDREDS = {
    **_counted("cien doscientos trescientos cuatrocientos quinientos seiscientos setecientos", 100, 100),
    **_counted("cien doscientas trescientas cuatrocientas quinientas seiscientas setecientas", 100, 100),
    **_counted("ochocientos novecientos", 800, 100),
    **_counted("ochocientas novecientas", 800, 100),
    "ciento": 100,
}
_MILLIONS, _THOUSANDS = {"million", "millon", "millones"}, {"thousand", "mil"}
# What would go on with a number in a way that is not read here: "twenty twenty-five", "two point five", "dos y medio".
_UNREAD = (
    set("point coma half medio hundred hundreds thousands millions miles dozen docenas billion trillion billon".split())
    | {"billones"}
    | _MILLIONS
    | _THOUSANDS
)
_FIRST = {
    "en": {*_UNITS["en"], *_TENS["en"]},
    "es": {*_UNITS["es"], *_TENS["es"], *_HUNDREDS, "mil", "un"},
}


def number_at(tokens: Sequence[Token], at: int, language: str) -> tuple[str, int] | None:
    """The number that begins at a token, in canonical form, and the place behind it. None where there is none."""
    if tokens[at].kind == "number":
        return _digits(tokens, at, language)
    if tokens[at].kind == "word" and not tokens[at].name and tokens[at].fold in _FIRST.get(language, ()):
        return _in_words([token.fold if token.kind == "word" else "" for token in tokens], at, language)
    return None


def _digits(tokens: Sequence[Token], at: int, language: str) -> tuple[str, int]:
    text, power, end = tokens[at].text, 0, at + 1
    attached = _ATTACHED.search(text)
    if attached:
        text, power = text[: attached.start()], _SCALES["en"][attached.group()]
    scales = _SCALES.get(language, {})
    while end < len(tokens) and tokens[end].kind == "word":
        word = tokens[end]
        found = scales.get(word.text) or (scales.get(word.fold) if len(word.fold) > 2 else None)
        if not found:
            break
        power, end = power + found, end + 1
    value = _value(text, language, scaled=power > 0)
    if value is None:
        return f"#{text}e{power}" if power else f"#{text}", end
    return _canonical(value * Decimal(10) ** power), end


def _value(text: str, language: str, *, scaled: bool) -> Decimal | None:
    """None where digits are a name: "007", "8.30", or three decimals that may be thousands."""
    if _PLAIN.fullmatch(text):
        return Decimal(text) if not text.lstrip("+-").startswith("0") or text == "0" else None
    if language in _GROUPED and _GROUPED[language].fullmatch(text):
        return Decimal(re.sub("[.,]", "", text))
    if scaled and _DECIMAL.fullmatch(text):
        return Decimal(text.replace(",", "."))
    return None


def _canonical(value: Decimal) -> str:
    return f"#{value.normalize():f}"


def _in_words(words: Sequence[str], at: int, language: str) -> tuple[str, int] | None:
    total, end = 0, at
    for names, power in ((_MILLIONS, 10**6), (_THOUSANDS, 10**3)):
        value, behind = _group(words, end, language)
        if behind == end and language == "es" and _word(words, end) == "un" and _word(words, end + 1) in names:
            value, behind = 1, end + 1
        if behind == end and _word(words, end) == "mil" and power == 10**3:
            value = 1
        elif behind == end:
            continue
        if _word(words, behind) in names:
            total, end = total + value * power, behind + 1
    value, behind = _group(words, end, language)
    total, end = total + value, behind
    following = _word(words, end)
    if following in ("and", "y") or following in _UNREAD:
        unread = _word(words, end + 1) in ("a", "half", "medio", "media") or following in _UNREAD
    else:
        unread = False
    if end == at or unread or _group(words, end, language)[1] > end:
        return None
    return _canonical(Decimal(total)), end


def _group(words: Sequence[str], at: int, language: str) -> tuple[int, int]:
    """A number below a thousand and the place behind it."""
    units, tens = _UNITS[language], _TENS[language]
    value, end = 0, at
    if language == "en" and 0 < units.get(_word(words, end), 0) < 10 and _word(words, end + 1) == "hundred":
        value, end = 100 * units[words[end]], end + 2
        if _word(words, end) == "and" and _word(words, end + 1) in units | tens:
            end += 1
    elif language == "es" and _word(words, end) in _HUNDREDS:
        value, end = _HUNDREDS[words[end]], end + 1
    if _word(words, end) in tens:
        value, end = value + tens[words[end]], end + 1
        joined = end + 1 if language == "es" and _word(words, end) == "y" else end
        digit = units.get(_word(words, joined), 0)
        if 0 < digit < 10 and (language == "en" or joined > end):
            value, end = value + digit, joined + 1
    elif _word(words, end) in units:
        value, end = value + units[words[end]], end + 1
    return value, end


def _word(words: Sequence[str], at: int) -> str:
    return words[at] if at < len(words) else ""
