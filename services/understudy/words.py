"""Words of Spanish and English text: folding, light stems, stop words, language and overlap."""

import functools
import re

from services.runtime.expressions.folding import fold

_WORD = re.compile(r"[^\W_]+(?:\.\d+)*")

SPANISH_STOPS = frozenset(
    """a al ante antes aun asi bajo cada como con contra cual cuales cuando cuanta cuantas cuanto cuantos de del desde
    donde dos durante e el ella ellas ellos en entre era eran es esa esas ese eso esos esta estan estas este esto estos
    fue fueron ha habia han hasta hay he la las le les lo los mas me mi mis muy nada ni no nos nosotros nuestra nuestras
    nuestro nuestros o os otra otro para pero por porque pues que quien quienes se segun ser si sido sin sobre son su
    sus tal tambien te tengo tenemos tiene tienen todo todos tras tu tus u un una unas uno unos y ya yo dime dame
    muestra puedo puede pueden debe deben hacer hace hemos fuera sea""".split()
)
ENGLISH_STOPS = frozenset(
    """a about all also an and any are as at be been but by can could did do does each for from had has have he her his
    how i if in into is it its list many may me more most much must my no not of on one or our ours out over shall she
    should so some such than that the their them then there these they this those to under up us was we were what when
    where which who whom whose why will with would you your tell show give please""".split()
)
_STOPS = SPANISH_STOPS | ENGLISH_STOPS
_SPANISH_SIGNS = re.compile(r"[¿¡ñáéíóú]")
_SPANISH_HINTS = re.compile(
    r"^(?:hola|hoy|precio|gracias|importe)$|(?:cion|ciones|dad|dades|os|as|ado|ada|aje|ez|amos|emos)$"
)
_ENGLISH_HINTS = re.compile(
    r"^(?:hello|hi|hey|thanks?|bye|today|price)$|(?:ing|tion|tions|ed|ness|ment|ments|ly|th|ty|ck|wn)$"
)

# Verb, participle and plural endings of both languages: enough for matching, no grammar.
_ENDINGS = frozenset(
    """amientos amiento imientos imiento adores adoras ador adora ados adas ado ada idos idas ido ida aron ieron amos
    emos imos ando iendo arse erse irse aban aba mente ings ing ments ment ities ity ies ed es s as os a o e ar er ir
    an en y""".split()
)
_LONGEST_ENDING = max(map(len, _ENDINGS))


# One form for `condiciones` and `conditions`.
_ACTION = re.compile(r"[ct]ion(?:es|s)?$")


@functools.lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """What is left of a folded word without its ending; at least three letters stay."""
    if word.isdigit():
        return word
    if match := _ACTION.search(word):
        return word[: match.start()] + "tion"
    for _ in range(2):
        for length in range(min(_LONGEST_ENDING, len(word) - 3), 0, -1):
            if word[-length:] in _ENDINGS:
                word = word[:-length]
                break
        else:
            break
    return word


def tokens(text: str) -> list[str]:
    """Folded words and numbers, in order; `signed_on` is two."""
    return _WORD.findall(fold(text))


def content(text: str) -> list[str]:
    """Folded words that carry meaning, in order."""
    return [word for word in tokens(text) if word not in _STOPS and (len(word) > 1 or word.isdigit())]


def stems(text: str) -> list[str]:
    """Stems of the words that carry meaning, in order."""
    return list(_stems(text))


# The same passages and headings come back turn after turn and question after question.
@functools.lru_cache(maxsize=4096)
def _stems(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in content(text))


def alike(one: str, other: str) -> bool:
    """Whether two stems are of one word: equal, one the beginning of the other, or much alike.

    Only stems of four letters and more are compared in part.
    """
    # Most pairs differ at once.
    return one == other or (one[:4] == other[:4] and _alike(one, other))


@functools.lru_cache(maxsize=20_000)
def _alike(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < 4 or one.isdigit() or other.isdigit():
        return False
    if len(shorter) >= 5 and longer.startswith(shorter):
        return len(shorter) >= 0.5 * len(longer)
    shared = next((index for index, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    return shared >= 4 and shared >= 0.75 * len(longer)


def language(text: str) -> str:
    """`es` or `en`, whichever the function words speak for; English on a draw."""
    folded = tokens(text)
    spanish: float = sum(word in SPANISH_STOPS and word not in ENGLISH_STOPS for word in folded)
    english: float = sum(word in ENGLISH_STOPS and word not in SPANISH_STOPS for word in folded)
    spanish += 2 * bool(_SPANISH_SIGNS.search(text.lower()))
    spanish += 0.5 * sum(bool(_SPANISH_HINTS.search(word)) for word in folded)
    english += 0.5 * sum(bool(_ENGLISH_HINTS.search(word)) for word in folded)
    return "es" if spanish > english else "en"


_SENTENCE_END = re.compile(
    r"(?<=[.!?…])[\"”»)]*\s+(?=[\"“«(¿¡]*[A-ZÁÉÍÓÚÑ0-9])|\n+\s*(?:[-*•]\s+)?|(?<=;)\s+(?=[a-z]\))"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|art|n[úu]m|no|sr|sra|mr|ms|dr|ltd|inc|corp|cl|vs|approx|aprox|ej|fig)|^[\d.]+)\.$", re.IGNORECASE
)
_NUMBERED_HEADING = re.compile(r"^(?:\D{1,12}\s)?\d{1,2}(?:\.\d{1,2})+\S*(?:\s+\S+){0,7}$")


def sentences(text: str) -> list[str]:
    """Sentences and list items, in order.

    A number such as `4.2` or an abbreviation does not end one, and a numbered heading stays with what it heads.
    """
    parts: list[str] = []
    for piece in _SENTENCE_END.split(text):
        piece = " ".join(piece.split())
        if not piece:
            continue
        if parts and (_ABBREVIATION.search(parts[-1]) or _NUMBERED_HEADING.match(parts[-1].rstrip(".:"))):
            parts[-1] += " " + piece
        else:
            parts.append(piece)
    return parts
