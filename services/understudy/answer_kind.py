"""Whether a sentence can be the answer at all: a question that asks when needs a time, one that asks who a name.

A question about what happened needs a sentence that tells of something that happened: rules say what may be done, never
that it was. That keeps questions that take for granted what never was from being answered with a rule.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from services.understudy.words import content, fold, stem, stems

_WHEN = re.compile(
    r"\b(?:when|(?:what|which) (?:year|date|day|month|decade|century)|cuando|(?:que|cual) (?:(?:es|fue) )?(?:el |la )?"
    r"(?:ano|fecha|dia|mes|decada|siglo))\b"
)
_MANY = re.compile(
    r"\b(?:how (?:many|much)|(?:what|which) (?:percentage|percent|share|number|amount|sum|price)|cuant[oa]s?|"
    r"(?:que|cual) (?:(?:es|fue) )?(?:el |la )?(?:porcentaje|numero|cantidad|importe|suma|precio))\b"
)
_WHO = re.compile(r"\b(?:who|whom|quien|quienes)\b")
_WHY = re.compile(r"\b(?:why|por que)\b")
# What is told of as having happened, by the auxiliary or the ending of the verb.
_HAPPENED = re.compile(
    r"\b(?:did|was|were|had|who \w+ed|which \w+ \w+ed|fue|fueron|hubo|se \w+(?:o|aron|ieron)|quien(?:es)? \w+o|"
    r"\w+(?:aron|ieron|amos|imos))\b"
)
# Forms that are the past and nothing else, and those that may be participles right behind what is asked for.
_IRREGULAR = re.compile(
    r"\b(?:became|began|broke|came|chose|drew|drove|ate|fell|flew|gave|grew|rose|sang|sank|saw|spoke|stole|swore|threw|"
    r"took|went|wore|wrote|(?:who|(?:how many|which|what) \w+) (?:brought|built|bought|fought|led|lost|made|met|paid|"
    r"said|sent|shot|sold|spent|stood|taught|told|won))\b"
)
_LAST_VOWEL = re.compile(r"\b\w+(?:ó|aron|ieron|[yj]eron|[dr]ujo|ían|abas?|aban)\b")
# What somebody or something was is still told so of what it is.
_IDENTITY = re.compile(
    r"\b(?:who|what|quien|cual|que) (?:was|were|fue|fueron|era|eran) (?:the|el|la|los|las|su|his|her|its)\b"
)
_OTHER = re.compile(r"\b(?:what|which|how|where|que|cual(?:es)?|como|donde)\b")
_PAST_IRREGULAR = re.compile(
    r"\b(?:was|were|had|did|became|began|broke|brought|built|bought|came|cut|fell|felt|fought|found|gave|got|grew|held|"
    r"kept|knew|led|left|lost|made|met|paid|put|ran|said|saw|sent|set|sold|spent|spoke|stood|took|taught|told|thought|"
    r"went|won|wrote|rose|since|desde|fue|fueron|era|eran|hubo|habia|tenia|podia|debia|solia|queria|tuvo|hizo|dijo|puso|pudo|vino|dio|estaba|estuvo|pretend\w*|\w+(?:puso|tuvo|vino|hizo))\b"
)
_PAST_REGULAR = re.compile(
    r"(?P<before>\b\w+\s+)?\b\w{2,}ed\b|\b(?:ha|han|he|hemos|habia|habian|sido)\s+\w+(?:ado|ido)\b"
    r"|,\s+\w+(?:ado|ada|ido|ida)\s+(?:el|en|por)\b"
)
_NO_PAST = frozenset(
    "is are be been being a an the may can must shall not es son ser esta estan un una el la los las".split()
)
# A point in time; for what happens again and again, or may happen, a term will do.
_DATE = re.compile(
    r"\b(?:\d{3,4}s?|\d{1,2}[./-]\d{1,2}(?:[./-]\d{2,4})?|january|february|march|april|june|july|august|september|october|"
    r"november|december|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|monday|"
    r"tuesday|wednesday|thursday|friday|saturday|sunday|lunes|martes|miercoles|jueves|viernes|sabado|domingo|century|"
    r"centuries|siglos?|decades?|decadas?|years? (?:ago|later|earlier|before|after)|anos? (?:antes|despues|atras)|"
    r"spring|summer|autumn|winter|primavera|verano|otono|invierno|after|before|during|since|tras|antes|despues|durante|"
    r"desde|finales|principios)\b"
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|dozens?|hundreds?|thousands?|millions?|"
    r"billions?|half|thirds?|quarters?|once|twice|several|few|many|most|majority|none|no|all|both|single|dos|tres|cuatro|"
    r"cinco|seis|siete|ocho|nueve|diez|once|doce|trece|catorce|quince|dieci\w+|veint\w+|\w+enta|docenas?|cien|cientos|mil|miles|millon|millones|mitad|tercios?|cuartos?|"
    r"varios|varias|muchos|muchas|mayoria|ninguno|ninguna|todos|todas|ambos|ambas|sola?)\b"
)
_NAME = re.compile(r"(?<![.?!¿¡:\d]\s)(?<!^)\b[A-ZÁÉÍÓÚÑ][\wáéíóúñ'-]+")


@dataclass(frozen=True)
class AnswerKind:
    """What a question asks for. `happened`: it is about what happened."""

    question: str
    asks: str = ""
    happened: bool = False

    def fits(self, text: str, following: str = "") -> bool:
        """Whether a statement, as quoted, can be the answer; the sentence after it may hold what is asked for."""
        if self.happened and not _tells_of_the_past(text):
            return False
        near = f"{text}\n{following}"
        match self.asks:
            case "when":
                return not self.happened or _adds(_DATE, self.question, near)
            case "many":
                return _adds(_NUMBER, self.question, near)
            case "who":
                return not self.happened or _names_somebody(self.question, near)
            case _:
                return True


@lru_cache(maxsize=256)
def answer_kind(question: str) -> AnswerKind:
    """The kind of answer that a question asks for."""
    folded = fold(question)
    kinds = (("when", _WHEN), ("many", _MANY), ("who", _WHO), ("why", _WHY), ("", _OTHER))
    # What is asked comes first; `who … when …` asks for a name.
    places = [(match.start(), rank, name) for rank, (name, one) in enumerate(kinds) if (match := one.search(folded))]
    told = _HAPPENED.search(folded) or _IRREGULAR.search(folded) or _LAST_VOWEL.search(question.lower())
    happened = bool(told) and not _IDENTITY.search(folded)
    return AnswerKind(question, min(places)[2] if places else "", happened)


def _names_somebody(question: str, text: str) -> bool:
    known = set(stems(question))
    return any(stem(word) not in known for match in _NAME.finditer(text) for word in content(match[0]))


def _adds(pattern: re.Pattern[str], question: str, text: str) -> bool:
    """Whether a pattern finds something that the question did not say itself."""
    said = {match[0] for match in pattern.finditer(fold(question))}
    return any(match[0] not in said for match in pattern.finditer(fold(text)))


def _tells_of_the_past(text: str) -> bool:
    folded = fold(text)
    if _PAST_IRREGULAR.search(folded) or _LAST_VOWEL.search(text.lower()):
        return True
    return any((match["before"] or "").strip() not in _NO_PAST for match in _PAST_REGULAR.finditer(folded))
