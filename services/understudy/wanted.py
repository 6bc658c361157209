"""What a question wants to be told: a thing of a named kind, a length, a name; and whether a sentence tells it.

Stricter than `answer_kind`, which only says what cannot be an answer: here a sentence has to hold one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from services.understudy.premise_words import CAUSE, MONEY
from services.understudy.words import ENGLISH_STOPS, SPANISH_STOPS, content, fold, stem, stems, tokens

_STOPS = ENGLISH_STOPS | SPANISH_STOPS
_COUNT = (
    r"(?:\d+(?:[.,]\d+)*|a|an|un|una|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|"
    r"\w+ty|half|"
    r"uno|dos|tres|treinta|cuarenta|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|trece|catorce|quince|"
    r"dieci\w+|veint\w+|\w+enta|"
    r"cien|ciento|\w+cientos|mil|millones|hundred|thousand|million|medio|media|pocos|pocas|few|several|varios|varias)"
)
_TIME_UNIT = (
    r"(?:seconds?|minutes?|hours?|days?|weeks?|fortnights?|months?|years?|decades?|centur(?:y|ies)|"
    r"segundos?|minutos?|horas?|dias?|semanas?|mes(?:es)?|anos?|decadas?|siglos?)"
)
_SPAN = re.compile(
    rf"\b{_COUNT}[\s-]+(?:\w+\s+)?{_TIME_UNIT}\b|\b\d+\s?(?:h|hrs?|mins?)\b|\bhasta (?:el|la)\b|\buntil\b"
)
_LENGTH = re.compile(
    rf"\b{_COUNT}\s+(?:\w+\s+)?(?:metros?|kilometros?|centimetros?|milimetros?|km|cm|mm|m|millas?|pies|leguas?|"
    r"met(?:re|er)s?|kilomet(?:re|er)s?|centimet(?:re|er)s?|millimet(?:re|er)s?|miles?|feet|foot|yards?|"
    r"inch(?:es)?|pisos|storeys)\b"
)
_WEIGHT = re.compile(
    rf"\b{_COUNT}\s+(?:\w+\s+)?(?:kilos?|kg|gramos?|toneladas?|libras|kilograms?|grams?|tons?|tonnes?|pounds?)\b"
)
_AREA = re.compile(
    rf"\b{_COUNT}\s+(?:\w+\s+)?(?:hectareas?|metros cuadrados|kilometros cuadrados|hectares?|acres?|"
    rf"square \w+|km2|m2)\b"
)
_DEGREES = re.compile(rf"\b{_COUNT}\s+(?:grados?|degrees?|ºc?|°c?)|\d\s*[°º]")
_SPEED = re.compile(r"\b(?:por hora|per hour|km/h|mph|per second|por segundo|nudos|knots)\b")
_VOLUME = re.compile(
    rf"\b{_COUNT}\s+(?:\w+\s+)?(?:litros?|hectometros|metros cubicos|litres?|liters?|gallons?|cubic \w+|"
    r"personas|pasajeros|plazas|asientos|people|passengers|seats|guests|camas|beds)\b|\d"
)
_OFTEN = re.compile(
    r"\b(?:cada|tod[oa]s l[oa]s|every|each|daily|weekly|monthly|yearly|twice|once (?:a|every)|times a|"
    r"veces (?:al?|por)|una vez|"
    r"diario|diariamente|semanal\w*|mensual\w*|anual\w*|trimestral\w*)\b"
)
_SHARE = re.compile(
    r"%|\b(?:per ?cent|por ciento|half|thirds?|quarters?|fifths?|mitad|tercios?|cuartos?|quintos?|part[ei])\b"
)
_YEAR = re.compile(r"\b1\d{3}\b|\b20\d\d\b|\bsiglo\b|\bcentury\b")
_POINT = re.compile(
    r"\b(?:1\d{3}|20\d\d|january|february|march|april|may|june|july|august|september|october|november|december|enero|"
    r"febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|(?:mon|tues|wednes|"
    r"thurs|fri|"
    r"satur|sun)days?|lunes|martes|miercoles|jueves|viernes|sabados?|domingos?|spring|summer|autumn|winter|primavera|"
    r"verano|otono|invierno|noon|midnight|mediodia|medianoche|dawn|dusk|navidad|christmas|easter|a las? \w+|"
    r"at (?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b|o'clock|\d{1,2}[:.]\d\d|"
    r"(?:after|before|antes de|despues de|tras) \w+)\b"
)
_NUMBER = re.compile(rf"\b(?!(?:a|an|un|una)\b){_COUNT}\b|%")
_PLACE = re.compile(
    r"(?:\b(?:in|at|on|near|from|to|en|de|del|a|hasta|cerca de|desde|junto al?)\s+(?:the\s+|el\s+|la\s+|"
    r"los\s+|las\s+)?)(?P<place>[A-ZÁÉÍÓÚÑ][\w'-]+)"
)
_NAME = re.compile(r"\b[A-ZÁÉÍÓÚÑ][\wáéíóúñ'-]+(?:\s+(?:de\s+|del\s+|la\s+)?[A-ZÁÉÍÓÚÑ][\wáéíóúñ'-]+)*")
_FORMS: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (name, re.compile(asks), tells)
    for name, asks, tells in (
        ("cause", r"\bwhy\b|\bpor que (?:razon|motivo|causa)\b|\bpor que (?!\w+ (?:fich|jug|corr))", CAUSE),
        ("often", r"\bhow often\b|\b(?:con que|que) frecuencia\b|\bcada cuanto\b", _OFTEN),
        (
            "share",
            r"\b(?:what|which) (?:percentage|percent|share|proportion|fraction)\b|\bque (?:porcentaje|parte|"
            r"proporcion|fraccion)\b|\bhow (?:big|large) a (?:part|share)\b",
            _SHARE,
        ),
        ("degrees", r"\btemperatur\w+\b", _DEGREES),
        (
            "money",
            r"\bhow much (?:is|are|does|do|did|was|were|will|must)\b.*|\bcuanto (?:cuesta|cuestan|costo|vale|"
            r"valen|se paga|hay que pagar|paga|cobra|dinero)\b|\b(?:what|which|que|cual es el) (?:price|fee|cost|"
            r"precio|coste|importe|cuota|tarifa)\b|\ba cuanto asciende\b|\bhow much money\b",
            MONEY,
        ),
        (
            "span",
            r"\bhow (?:long|soon|many (?:days|weeks|months|years|hours|minutes))\b|\bcuant[oa]s? (?:tiempo|dias|"
            r"semanas|meses|anos|horas|minutos)\b|\bcuanto (?:dura|duro|duran|tarda|tardo|tardan)\b|"
            r"\b(?:cuanta antelacion|que plazo|what (?:notice|period|term)|orbital period)\b",
            _SPAN,
        ),
        (
            "length",
            r"\bhow (?:far|tall|high|deep|wide)\b|\b(?:que|cual es la) (?:distancia|altura|longitud|profundidad|"
            r"anchura|altitud)\b|\bwhat (?:is the )?(?:distance|height|length|depth|width)\b|\ba que distancia\b|"
            r"\bcuanto mide\b",
            _LENGTH,
        ),
        (
            "weight",
            r"\bhow (?:heavy|much does \w+ weigh)\b|\bcuanto pesa\b|\b(?:que|cual es el) peso\b|\bweight of\b",
            _WEIGHT,
        ),
        ("area", r"\b(?:que|cual es la) (?:superficie|extension)\b|\b(?<!in )what (?:is the )?area\b", _AREA),
        ("speed", r"\b(?:que|a que) velocidad\b|\bhow fast\b|\bwhat speed\b", _SPEED),
        ("volume", r"\b(?:que|cual es la) capacidad\b|\bwhat (?:is the )?capacity\b", _VOLUME),
        ("year", r"\b(?:what|which|que) (?:year|ano|siglo|century)\b", _YEAR),
        (
            "number",
            r"\bhow many\b|\bcuant[oa]s\b|\b(?:what|which|que|cual es el) (?:number|numero|amount|cantidad|"
            r"strength|age|edad|score|resultado)\b|\bhow old\b",
            _NUMBER,
        ),
        (
            "point",
            r"\bwhen\b|\bcuando\b|\b(?:what|which|que) (?:day|days|date|dia|dias|fecha|month|months|mes|meses|"
            r"hour|time|hora)\b|\blatest hour\b",
            _POINT,
        ),
    )
)  # fmt: skip
_ALONE = re.compile(
    r"\b(?:\d{1,3}(?:[.,]\d+)?|two|three|four|five|six|dos|tres|cuatro|cinco|seis)\s*(?:more\b|mas\b|[.;]|$)"
)
_WHO = re.compile(r"\b(?:who|whom|quien(?:es)?)\b")
# Those who do something, by the ending of the noun.
_DOER = re.compile(
    r"\b(?:the|an?|el|la|una?|al|del) (?P<doer>[a-z]{2,}(?:d?or|ora|ero|era|ista|ante|ente|ario|aria|er|ist|"
    r"man|girl|boy|ian|ant))\b"
)
_WHERE = re.compile(
    r"\b(?:where|donde)\b|\b(?:what|which|que) (?:\w+ )?(?:city|town|village|country|place|ciudad|pueblo|pais|"
    r"lugar|localidad|villa)\b"
)
_HEAD = re.compile(
    r"\b(?:(?:what|which|(?<!por )que|cual|cuales|cuant[oa]s|how many) "
    r"(?:(?:other|more|otros?|otras?|mas|type|kind|sort|tipo|clase) (?:of |"
    r"de )?)?)(?P<head>[a-z]+)(?: (?P<next>[a-z]+))?"
)
# Each unit as it may be asked for and written in either language, and short behind a number.
_UNITS_WRITTEN = tuple(
    (frozenset(map(stem, names.split())), "|".join((*names.split(), *(f"(?<=[\\d ]){one}" for one in short.split()))))
    for names, short in (
        ("second seconds segundo segundos", "s secs? segs?"), ("minute minutes minuto minutos", "mins?"),
        ("hour hours hora horas", "h hrs?"), ("day days dia dias", ""), ("week weeks semana semanas", ""),
        ("month months mes meses", ""), ("year years ano anos", ""), ("decade decades decada decadas", ""),
        ("metre metres meter meters metro metros", "m"), ("kilometre kilometres kilometro kilometros", "km"),
        ("mile miles milla millas", ""), ("litre litres liter liters litro litros", "l"),
        ("tonne tonnes ton tons tonelada toneladas", "t"), ("kilo kilos kilogram kilograms kilogramos", "kg"),
        ("euro euros", "€ eur"), ("dollar dollars dolar dolares", "usd"), ("page pages pagina paginas", ""),
    )
)  # fmt: skip
# What shows by its unit, so that a sentence without one holds no answer.
MEASURES = frozenset("span length weight area degrees speed share often".split())
# What one sentence is enough for.
FIGURES = MEASURES | {"money", "number", "volume", "year"}
_ROLES = ("profesion", "pariente", "institucion", "grado", "empresa")


@dataclass(frozen=True)
class Wanted:
    """`form`: one of those above, `who`, `where`, `kind`, or empty. `head`: the noun that is asked for, folded."""

    question: str
    form: str = ""
    head: str = ""

    @property
    def typed(self) -> bool:
        """Whether it can be told from a sentence alone that it holds what is wanted."""
        return bool(self.form)

    def told(self, text: str) -> bool:
        """Whether a sentence holds something of what is wanted that the question did not say itself."""
        if self.form == "who":
            return bool(self._new_names(text) or self._doers(text)) or any(self._member(one, text) for one in _ROLES)
        if self.form == "where":
            known = set(stems(self.question))
            named = any(stem(fold(one["place"])) not in known for one in _PLACE.finditer(text))
            return named or self._member("edificio", text)
        if self.form == "kind":
            return self._member(self.head, text)
        pattern = next((tells for name, _, tells in _FORMS if name == self.form), None)
        if pattern is None:
            return False
        said = {one[0] for one in pattern.finditer(fold(self.question))}
        new = any(one[0] not in said for one in pattern.finditer(fold(text)))
        return self._in_unit(text) if _written(stem(self.head)) and self.form in ("span", "number") else new

    def shown(self, text: str) -> bool:
        """Whether a text holds something of the kind, the kind's own name, or a name that may be of it."""
        names = _kind_names().get(stem(self.head), frozenset())
        return self.told(text) or not names.isdisjoint(stems(text)) or bool(self._new_names(text))

    def counts(self, text: str) -> bool:
        """Whether a sentence names things of the kind that is counted, or a number without saying of what."""
        return self._member(self.head, text) or bool(_ALONE.search(fold(text)))

    def _in_unit(self, text: str) -> bool:
        """Whether a number comes with the unit asked for, or as `and the other takes 88` with none."""
        return bool(_number_in(stem(self.head)).search(fold(text)))

    def _member(self, name: str, text: str) -> bool:
        known, members = set(stems(self.question)), _kinds().get(stem(name), frozenset())
        return any(stem(word) in members and stem(word) not in known for word in tokens(text))

    def _doers(self, text: str) -> list[str]:
        known = set(stems(self.question))
        return [one["doer"] for one in _DOER.finditer(fold(text)) if stem(one["doer"]) not in known]

    def _new_names(self, text: str) -> list[str]:
        known = set(stems(self.question))
        found: list[str] = []
        for one in _NAME.finditer(text):
            # The first word of a sentence is capitalised whatever it is.
            words = [stem(word) for word in content(one[0])]
            opens = one.start() == 0 and len(words) < 2
            if not opens and any(word not in known for word in words):
                found.append(one[0])
        return found


def _written(unit: str) -> str:
    """How a unit, given by its stem, may be written; empty where it is none."""
    return next((forms for stems_of, forms in _UNITS_WRITTEN if unit in stems_of), "")


@lru_cache(maxsize=64)
def _number_in(unit: str) -> re.Pattern[str]:
    """A number with the unit of that stem, or with none at the end of what is said."""
    return re.compile(rf"\b{_COUNT}[\s-]*(?:\w+\s+)?(?:{_written(unit)})(?!\w)|\b\d{{1,3}}(?:[.,]\d+)?\s*(?:[.,;]|$)")


@lru_cache(maxsize=256)
def wanted(question: str) -> Wanted:
    """What a question wants to be told."""
    folded = fold(question)
    places = [(match.start(), name) for name, asks, _ in _FORMS if (match := asks.search(folded))]
    places += [
        (match.start(), name) for name, one in (("who", _WHO), ("where", _WHERE)) if (match := one.search(folded))
    ]
    head = _head(folded)
    first = min((at for at, _ in places), default=len(folded))
    if head and stem(head) in _kinds() and folded.index(head) < first:
        return Wanted(question, "kind", head)
    if places:
        return Wanted(question, min(places, key=lambda one: one[0])[1], head)
    return Wanted(question, "", head)


def _head(folded: str) -> str:
    """The noun behind the word that asks; empty where a verb or the thing itself stands there."""
    match = _HEAD.search(folded)
    if match is None:
        return ""
    word = match["head"]
    return "" if word in _STOPS else word


@cache
def _kind_names() -> Mapping[str, frozenset[str]]:
    """The stems of all names of a kind by the stem of each."""
    found: dict[str, set[str]] = {}
    for line in _lines():
        names = {stem(one) for one in fold(line.partition(">")[0]).replace("|", " ").split()}
        for one in names:
            found.setdefault(one, set()).update(names)
    return {one: frozenset(names) for one, names in found.items()}


@cache
def _kinds() -> Mapping[str, frozenset[str]]:
    """The stems of the things of a kind, by the stem of each of its names."""
    found: dict[str, set[str]] = {}
    for line in _lines():
        names, _, members = line.replace("|", " ").partition(">")
        things = {stem(one) for one in fold(members).split()}
        for name in fold(names).split():
            found.setdefault(stem(name), set()).update(things)
    return {name: frozenset(things) for name, things in found.items()}


def _lines() -> list[str]:
    text = (resources.files(__package__ or "") / "kinds.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
