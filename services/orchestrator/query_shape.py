"""What can be told of a query from its words alone, in Spanish and English: no model is asked for it."""

import re
from enum import Enum

# Letters and digits in one word, with a capital or a joint: CT-2025-0091, ERR-4032, B12345678; amounts such as 100k€
# are none. Then numbers of six digits and more, and clauses by their number.
_IDENTIFIER = re.compile(
    r"(?<![\w-])(?=[\w./-]{0,64}[^\W\d_])(?=[\w./-]{0,64}\d)[^\W_][\w./-]{2,62}\w"
    r"|(?<![\w.,-])\d{6,}(?![\w.,-]*\w)"
    r"|(?:\b(?:clause|cl[áa]usula|art[íi]culo|article|section|secci[óo]n|apartado)\s+|§\s*)\d+(?:\.\d+)*",
    re.IGNORECASE,
)
_CAPITAL_OR_JOINT = re.compile(r"[A-ZÁÉÍÓÚÑ]|[^\W\d_][-_/]\w*\d|\s|§|^\d+$")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W_]+")

_STOPS = frozenset(
    """a al algo ante antes aquel aquella aquellos aquellas asi así aun aún bajo cada como cómo con contra cual cuál
    cuales cuáles cuando cuándo cuanta cuánta cuantas cuántas cuanto cuánto cuantos cuántos de del desde donde dónde dos
    durante e el él ella ellas ellos en entonces entre era eran es esa esas ese eso esos esta está estan están estas
    este esto estos fue fueron ha han hasta hay la las le les lo los mas más menos me mi mis mismo misma mismos mismas
    muy ni no nos nuestro nuestra nuestros nuestras o os otra otro otros otras para pero por porque pues que qué quien
    quién quienes se según ser si sí sido sin sobre son su sus tal también tampoco te tenemos tiene tienen todo toda
    todos todas tras tu tus u un una unas uno unos y ya yo dime puede pueden debe deben pasa

    about after all also an and any are as at be been before but by can could did do does each else for from had has
    have he her here his how i if in into is it its just less let many me more most much must my no not of on one ones
    only or other others our out over please same shall she should so some such than that the their them then there
    these they this those to too under up us was we were what when where which who whom whose why will with would you
    your former latter tell""".split()
)
_OPENER = re.compile(
    r"^\W*(?:y|e|o|pero|entonces|tambi[ée]n|qu[ée] hay de|qu[ée] tal|and|or|but|then|also|so|what about|how about)\b",
    re.I,
)
# Words that stand for something said before. `that` and `su` only where they do not join or belong to a noun nearby.
_STANDS_FOR = re.compile(
    r"\b(?:it|they|them|those|these|this|the same|the (?:former|latter|others?|previous|above)|"
    r"(?:about|of|for|in|with|is|was|does|did|on) that|that one|that\W*$|"
    r"es[eoa]s?|est[eo]s?(?!\s+del?\b)|estas|aquel(?:l[oa]s?)?|ell[oa]s?|él|dich[oa]s?|l[oa]s? mism[oa]s?|el mismo|"
    r"l[oa]s? (?:otr[oa]s?|anterior(?:es)?|primer[oa]s?|segund[oa]s?)|ahí|allí)\b",
    re.I,
)
_BELONGS = re.compile(r"\b(?:its|their|his|her|sus?)\b", re.I)
_MAX_OPENED, _MAX_POINTING, _MAX_BELONGING = 8, 4, 2

_ASKS = (
    r"(?:(?:in|for|with|by|to|on|of|en|con|para|por|de|a)\s+)?(?:what|which|how|who|when|where|why|is|are|does|do|"
    r"qué|cuál|cuáles|cuánt[oa]s?|quién|quiénes|cómo|cuándo|dónde)\b"
)
_SEVERAL = re.compile(
    rf"[,;]?\s(?:and|y|e|as well as|así como|además de|also)\s+{_ASKS}"
    r"|\b(?:compare[ds]?|comparison|versus|vs|difference between|differ|compara(?:r|ción)?|diferencias? entre|"
    r"frente a|en comparación|both|ambos|ambas|tanto)\b"
    r"|\b(?:between|entre)\s.+\s(?:and|y|e)\s"
    r"|\b[\w-]+(?:,\s+[\w-]+)+,?\s+(?:and|or|y|e|o|u)\s+",  # a list of three or more
    re.I | re.DOTALL,
)
# Two names joined: `Iberdrola y Endesa`, `Lisbon and Porto`.
_TWO_NAMES = re.compile(r"\b[A-ZÁÉÍÓÚÑ]\w+\s+(?:and|or|y|e|o|u)\s+(?:the\s+|el\s+|la\s+)?[A-ZÁÉÍÓÚÑ]\w+")
_QUOTED = re.compile(r"^\s*[\"“«].+[\"”»]\s*$")
_MAX_KEYWORDS = 4


class Shape(Enum):
    """`EXACT`: it is searched best as it is. `SEVERAL`: it asks several things. `OPEN`: its words do not tell."""

    EXACT = "exact"
    SEVERAL = "several"
    OPEN = "open"


def identifiers(text: str) -> list[str]:
    """Codes, long numbers and clause numbers, as written: what must be found just so."""
    return [found for found in _IDENTIFIER.findall(text) if _CAPITAL_OR_JOINT.search(found)]


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text, as written."""
    return frozenset(_NUMBER.findall(text))


def shape(query: str) -> Shape:
    """What kind of query this is."""
    if identifiers(query) or _QUOTED.match(query):
        return Shape.EXACT
    questions = [part for part in query.split("?")[:-1] if _WORD.search(part)]
    if len(questions) > 1 or _SEVERAL.search(query) or _TWO_NAMES.search(query):
        return Shape.SEVERAL
    asks = "?" in query or bool(re.match(rf"^\W*{_ASKS}", query, re.I))
    return Shape.EXACT if not asks and len(_WORD.findall(query)) <= _MAX_KEYWORDS else Shape.OPEN


def leans_on_history(query: str) -> bool:
    """Whether a query cannot be understood without what was said before, such as `and in 2024?` or `¿cuáles?`.

    Wrong in both directions at times: a missed one is searched as it is, a false one costs a model turn.
    """
    telling = [word for word in _WORD.findall(query.lower()) if word not in _STOPS and not word.isdigit()]
    if not telling:
        return not identifiers(query)
    if _OPENER.match(query):
        return len(telling) <= _MAX_OPENED
    if _STANDS_FOR.search(query):
        return len(telling) <= _MAX_POINTING
    return bool(_BELONGS.search(query)) and len(telling) <= _MAX_BELONGING
