"""What no answer may lack, however it is worded: the names, numbers and years of a question, its order and its rank.

And what no answer may stand beside: that there was none of what the question takes for granted.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from services.runtime.expressions.quantities import quantities
from services.understudy.predicate import predicate
from services.understudy.premise_words import NEGATION, ORDINALS
from services.understudy.words import ENGLISH_STOPS, SPANISH_STOPS, alike, content, fold, language, stem, stems, tokens

_STOPS = ENGLISH_STOPS | SPANISH_STOPS
_CAPITAL = re.compile(r"(?<![\w])[A-ZÁÉÍÓÚÑÜ][\w'’-]*|\b[A-Z]+\w*\d[\w-]*|\b\w+-\d+\b")
_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")
_DATE = re.compile(
    r"\b\d{1,2}\b(?= de [a-z]+|\s+(?:january|february|march|april|may|june|july|august|september|october|"
    r"november|december))"
)
# Ranks: one line, one rank, in both languages.
_RANKS = tuple(
    re.compile(rf"\b(?:{words})\b")
    for words in (
        r"first|earliest|primer[oa]?s?|inicial|debut\w*",
        r"last|latest|final|ultim[oa]s?",
        r"(?:larg|bigg|great)est|mayor(?:es)?|mas grandes?|(?:el|la) grande",
        r"(?:small|least|tini)est|smallest|menor(?:es)?|mas pequen[oa]s?",
        r"longest|mas larg[oa]s?",
        r"shortest|mas cort[oa]s?",
        r"(?:tall|high)est|mas alt[oa]s?",
        r"lowest|mas baj[oa]s?",
        r"oldest|mas (?:antigu|viej)[oa]s?|decan[oa]",
        r"youngest|newest|mas (?:joven(?:es)?|recientes?|nuev[oa]s?)",
        r"best|mejor(?:es)?",
        r"worst|peor(?:es)?",
        r"fastest|quickest|mas rapid[oa]s?",
        r"(?:deep)est|mas profund[oa]s?",
        r"cheapest|mas barat[oa]s?",
        r"(?:cost|pric|dear)(?:li)?est|most expensive|mas car[oa]s?",
        r"(?:the|his|her|its|their) most (?!of\b)\w+|mas (?:eficaz|eficaces|important\w+|famos\w+|conocid\w+|"
        r"valios\w+|usad\w+|vendid\w+)",
        r"heaviest|mas pesad[oa]s?",
    )
)
_NO_RANK = re.compile(
    r"\b(?:at|en|por)\s+(?:the\s+|el\s+|lo\s+|los\s+)?(?:least|last|first|most|best|primer\w*|menos|ultim\w+|"
    r"final)\b|\b(?:al menos|mayor de|menor de|mayores de|menores de|world war|guerra mundial)\b"
)
# `How long does it last`, against `the last one`.
_LASTS = re.compile(r"\blast(?=\W*$|\s+(?:in|for|until|on|at|under|when|if)\b)")
# A time, which a text names once for many sentences.
_TIMES = re.compile(r"\b\w+ (?:century|quarter|half|siglo|trimestre)\b")
_DENIAL = re.compile(r"\b(?:no|not|never|nor|without|nobody|none|\w+n't|nunca|jamas|sin|ningun[oa]?|tampoco|ni)\b")
_REACH_WORDS = 4
_DID = re.compile(r"\b(?:did|does|do)\b", re.IGNORECASE)
# What makes the order of words say nothing of who did it.
_PASSIVE = re.compile(
    r"\b(?:was|were|is|are|be|been|being|fue|fueron|es|son|ser|sido)\b.*\b(?:by|por)\b|\w(?:ed|en|"
    r"[ai]d[oa]s?) (?:by|por) |"
    r"\b(?:lost|loses?|perdio|pierden?|perdieron|received|recibi\w+|from)\b"
)
_INFINITIVE = re.compile(r"\b(?:deben?|debia|pueden?|podia|tienen? que|va a|van a) (\w+[aei]r)\b")
_OWN = frozenset("his her its their your my our su sus".split())
_ARTICLES = frozenset("a an the any un una el la los las ningun ninguna ninguno to se le lo".split())
_MARKS = frozenset("a al el la los las".split())


@lru_cache(maxsize=2048)
def unnamed(question: str, text: str) -> str:
    """The name, number, date or year of a question that a text lacks; empty where it has all."""
    folded = fold(text)
    known = set(stems(text))
    for one in names_of(question):
        for part in re.findall(r"[^\W_]+", fold(one).removesuffix("'s").removesuffix("’s")):
            if part not in _STOPS and part not in folded and not any(alike(stem(part), other) for other in known):
                return one
    for one in (*_YEAR.findall(question), *_DATE.findall(fold(question))):
        if not re.search(rf"(?<!\d){one}(?!\d)", folded):
            return one
    told = {each.value for each in quantities(text)}
    for each in quantities(question):
        if (
            each.value not in told
            and each.value not in (0, 1)
            and not re.search(rf"(?<!\d){each.value:f}(?!\d)", folded)
        ):
            return question[each.start : each.end].strip()
    return ""


@lru_cache(maxsize=2048)
def other_rank(question: str, text: str) -> str:
    """The order or rank that a question takes for granted and a text does not tell; empty where it tells all."""
    folded, near = _LASTS.sub(" ", _NO_RANK.sub(" ", fold(question))), _TIMES.sub(" ", fold(text))
    folded = _TIMES.sub(" ", folded)
    for pattern in (*ORDINALS, *_RANKS):
        match = pattern.search(folded)
        if match and not pattern.search(near):
            return match[0]
    return ""


def denied(question: str, words: Sequence[str], near: Sequence[str]) -> str:
    """The sentence that says that there was none of what the question takes for granted; empty where none does.

    `Arle left no will` denies a question about the will of Arle: the denied word is the question's, and so is a
    name, or two more words, of what stands before it.
    """
    if NEGATION.search(fold(question)):
        return ""
    names = [part for name in names_of(question) for part in content(name)]
    # `his will` is a thing, whatever else the word means.
    words = [*words, *(one for before, one in pairwise(tokens(question)) if before in _OWN)]
    for sentence in near:
        told = tokens(sentence)
        for at, word in enumerate(told):
            if not _DENIAL.fullmatch(word) or not _shared(words, _denied_words(told, at)):
                continue
            before = told[:at]
            if any(_shared([one], before) for one in names) or sum(_shared([one], before) for one in words) > 1:
                return sentence
    return ""


def _denied_words(told: Sequence[str], at: int) -> list[str]:
    behind = [one for one in told[at + 1 : at + 1 + _REACH_WORDS] if one not in _ARTICLES]
    ends = next((index for index, one in enumerate(behind) if one in ("but", "pero", "sino", "until", "hasta")), None)
    return behind[:ends]


def names_of(question: str) -> list[str]:
    """The capitalised words of a question but its first."""
    opens = re.match(r"\W*\w+", question)
    return [one[0] for one in _CAPITAL.finditer(question) if opens is None or one.start() >= opens.end()]


@lru_cache(maxsize=2048)
def turned_round(question: str, text: str) -> bool:
    """Whether a sentence tells of the same deed with doer and done-to changed over."""
    told = tokens(text)
    if _PASSIVE.search(fold(text)):
        return False
    verbs = {predicate(question, language(question)), *_INFINITIVE.findall(fold(question))}
    for verb, actors, objects in _deeds(question):
        if verb not in verbs:
            continue
        for at, word in enumerate(told):
            if not alike(stem(word), stem(verb)):
                continue
            before, after = told[:at], told[at + 1 :]
            if _shared(objects, before) and not _shared(actors, before) and _shared(actors, after):
                return True
    names = [one for one in names_of(question) if not one.isdigit()]
    match = _DID.search(question)
    if match and len(names) > 1 and all(match.end() <= question.index(one) for one in names[:2]):
        places = [next((k for k, one in enumerate(told) if one in content(name)), -1) for name in names[:2]]
        return places[0] > places[1] >= 0 and names[1] in text.split(",")[0]
    return False


def _deeds(question: str) -> list[tuple[str, list[str], list[str]]]:
    """Each word that may be the verb with who does it and to whom, by the order of words."""
    if match := _DID.search(question):
        words = tokens(question[match.end() :])
        return [
            (word, _telling(words[:at]), _telling(words[at + 1 :]))
            for at, word in enumerate(words)
            if at and word not in _STOPS and at + 1 < len(words)
        ]
    words, found = tokens(question), list[tuple[str, list[str], list[str]]]()
    for at, word in enumerate(words[1:], start=1):
        rest = words[at + 1 :]
        ends = next((k for k, one in enumerate(rest) if k and one in _MARKS and _telling(rest[:k])), None)
        if word not in _STOPS and ends and (rest[0] in _MARKS or rest[0] not in _STOPS):
            found.append((word, _telling(rest[:ends]), _telling(rest[ends:])))
    return found


def _telling(words: Sequence[str]) -> list[str]:
    return [one for one in words if one not in _STOPS]


def _shared(words: Sequence[str], told: Sequence[str]) -> bool:
    return any(alike(stem(one), stem(word)) for one in words for word in told)
