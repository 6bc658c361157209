"""Finds what a question takes for granted to have been done or to be the case: its verb, or the noun it asks of.

By the order of words alone, which in questions is stricter than elsewhere; empty where it does not show.
"""

import re
from functools import lru_cache

from services.understudy.words import ENGLISH_STOPS, SPANISH_STOPS, fold, stem

_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[?.,;:]")
# Verbs that say so little that a sentence need not repeat them.
LIGHT = frozenset(
    stem(word)
    for word in """
    be been being is are was were has have had do does did done make makes made get got take takes took become
    became come came go went happen happens happened occur occurred use uses used using call called name named
    consider considered say says said mean means meant know known think believe believed describe described refer
    referred seem include includes included contain begin began start started need want like help give given work
    show allow hold ser es son fue fueron era eran estar esta estan estaba estuvo haber ha han habia hubo hay
    tener tiene tienen tenia tuvo hacer hace hacen hizo hicieron hecho dar da dan dio poner puso usar usa utiliza
    utilizar usaba llamar llama llaman llamo llamaba llamado ocurrir ocurre ocurrio ocurrieron pasar pasa paso
    suceder sucedio significa significaba considera consideraba considero considerado decir dice dijo cree creia
    creen incluye incluyen contiene empezo comenzo empezar comenzar necesita quiere conoce conocido conoce refiere
    describe describio muestra permite llego llegar encuentra encuentran encontraba consiste pertenece forma
    formaba convirtio convertirse sirve tuvieron tendria tendrian tendra tendran poseer posee poseia pusieron
    ponen produce producen producia realiza realizan realizo realizaron vio vieron veia ver existe existia existio
    existieron estuvieron quedaba quedaban queda ocupa last lasts lasted cost costs take dura duran duraba duro
    tarda tardan cuesta cuestan costo costaba vale had having exist existed produce produced own owned""".split()
)
_SPANISH_AUX = frozenset(
    """tiempo dinero no se me nos le les lo la los las te ha han he hemos habia habian fue fueron es son era eran
    esta estan puede pueden podia podian debe deben debia va van iba suele suelen quiere hay que tiene tienen ya
    tambien sido ser estaba estaban siendo""".split()
)
_SPANISH_ASKS = re.compile(
    r"\b(?:por que|para que|cuando|a quien(?:es)?|quien(?:es)?|como|a?donde|cuanto|desde cuando|hasta cuando|"
    r"en que (?:ano|fecha|dia|mes|momento|siglo)|que dia|que ano|con quien|de quien)\s+(?P<rest>.+)"
)
_SPANISH_NOUN_ASKS = re.compile(r"\b(?:que|cual(?:es)?|cuant[oa]s?)\s+(?P<rest>.+)")
_SPANISH_PAST = re.compile(r"(?:ó|aron|ieron|[yj]eron|aba|aban|ía|ían)$")
_ENGLISH_ASKS = re.compile(
    r"\b(?:when|why|where|how|what|which|who|whom|whose)\b(?P<between>[^?]*?)\b"
    r"(?P<aux>did|does|do|was|were|is|are|has|have|had|can|may|must|should|will|could)\b(?P<rest>.+)",
    re.I,
)
_ENGLISH_WHO = re.compile(r"^\W*who\s+(?P<rest>.+)", re.I)
_BASE_FORM = frozenset("did does do can may must should will could".split())
_BREAKS = frozenset(
    """a an the this that these those his her its their our your my any all each every no some of in on
    at by to from for with without after before during over under about as until since into against
    between and or than there than so more most less not only both ? . , ; :""".split()
)
_PRONOUNS = frozenset("i we you he she it they one".split())
_PARTICIPLES = frozenset(
    """born built bought brought caught chosen cut dealt done drawn driven eaten fallen felt fought found given gone
    grown held hit hurt kept known laid led left lent lost made meant met paid put read run said seen sent set
    shot shut sold spent split spoken stolen struck sung sunk taken taught told thrown understood won worn written
    broken beaten begun forbidden frozen hidden overthrown rebuilt withdrawn burnt""".split()
)


@lru_cache(maxsize=512)
def predicate(question: str, spoken: str) -> str:
    """The word, folded, of which the question asks; empty where its words do not show it, or it says too little."""
    found = _spanish(question) if spoken == "es" else _english(question)
    return (
        "" if stem(found) in LIGHT or found in ENGLISH_STOPS or found in SPANISH_STOPS or not found.isalpha() else found
    )


def _spanish(question: str) -> str:
    folded = fold(question)
    if match := _SPANISH_ASKS.search(folded):
        words = _TOKEN.findall(match["rest"])
        return next((word for word in words if word not in _SPANISH_AUX), "")
    if match := _SPANISH_NOUN_ASKS.search(folded):
        # With accents: only they tell `pago` from `pagó`.
        words = _TOKEN.findall(question[match.start("rest") : match.end("rest")].lower())
        return next((fold(word) for word in words[1:6] if _SPANISH_PAST.search(word)), "")
    return ""


def _english(question: str) -> str:
    if match := _ENGLISH_WHO.search(question):
        words = _TOKEN.findall(match["rest"])
        first = next((word.lower() for word in words if word.lower() not in _AUXILIARIES), "")
        if first and first not in _BREAKS:
            return first
        return ""
    match = _ENGLISH_ASKS.search(question)
    if match is None:
        return ""
    words = _TOKEN.findall(match["rest"])
    if match["aux"].lower() in _BASE_FORM:
        return _base_form(words)
    return next((word.lower() for word in words if _is_participle(word.lower())), "")


_AUXILIARIES = frozenset(
    """did does do was were is are has have had can may must should will would could also been being not first
    originally usually always often ever finally""".split()
)


def _is_participle(word: str) -> bool:
    return (word.endswith("ed") and len(word) > 4) or word in _PARTICIPLES


def _base_form(words: list[str]) -> str:
    """The verb behind its subject."""
    at = 0
    while at < len(words) and words[at].lower() in _BREAKS:
        at += 1
    if at < len(words) and words[at].lower() in _PRONOUNS:
        return words[at + 1].lower() if at + 1 < len(words) else ""
    named = at < len(words) and words[at][:1].isupper()
    at += 1
    while at < len(words):
        word = words[at]
        following = words[at + 1] if at + 1 < len(words) else "?"
        if word[:1].isupper() or not word.isalpha():
            at += 1
        elif word.lower() in _BREAKS:
            # Over what belongs to the subject: `the audit of the house reveal`.
            at += 2 if not following[:1].isupper() else 1
        elif named or following.lower() in _BREAKS or following[:1].isupper() or following[:1].isdigit():
            return word.lower()
        else:
            at += 1
    return ""
