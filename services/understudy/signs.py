"""Words that tell which tool a question needs, in Spanish and English."""

import re
from enum import Enum

from services.understudy.words import fold


class Need(Enum):
    """What a part of a question needs; the values are the tools' names, except TALK."""

    SQL = "sql_query"
    DOCUMENTS = "vector_search"
    WEB = "web_search"
    TALK = ""


# (need, weight, words). Weights say how telling the words are, not how frequent.
_SIGNS: tuple[tuple[Need, float, str], ...] = (
    (Need.SQL, 3, r"how many|number of|cuant[oa]s|numero de|cantidad de|recuento|count of|count the"),
    (
        Need.SQL,
        3,
        (
            r"sum|suma(?:r|n)?|average|promedio|por termino medio|total (?:of|de|amount|value|spend|"
            r"paid|pagado|gastado|facturado)|totals?|importe total|importe medio|valor medio|media de"
        ),
    ),
    (
        Need.SQL,
        2,
        (
            r"how much did we|how much have we|cuanto (?:hemos|pagamos|gastamos|facturamos|suman?|"
            r"debemos)|spent|gastado"
        ),
    ),
    (
        Need.SQL,
        2,
        (
            r"top \d+|largest|biggest|highest|lowest|smallest|mayores|mas (?:grandes?|alt[oa]s?|"
            r"car[oa]s?)|de mayor|de menor|maxim[oa]|minim[oa]|most recent|ultimos? \d+|ranking"
        ),
    ),
    (
        Need.SQL,
        2,
        (
            r"per (?:year|month|quarter|region|country|category|\w+)|por (?:cada|ano|mes|trimestre|"
            r"region|pais|categoria|estado|cliente|proveedor)|grouped by|agrupad[oa]s? por|by (?:year|"
            r"month|region|country|category)|desglos\w+|breakdown"
        ),
    ),
    (
        Need.SQL,
        1,
        (
            r"list (?:all|the)|listado|lista(?:me)?|tenemos(?! (?:que|para))|do we have(?! to)|signed in|"
            r"firmad[oa]s en|ordered in|paid in"
        ),
    ),
    (
        Need.DOCUMENTS,
        3,
        (
            r"clausulas?|clauses?|condicion(?:es)?|conditions?|politicas?|policy|policies|"
            r"procedimientos?|procedures?|requisitos?|requirements?|terms|terminos|"
            r"penali[sz]aci?on(?:es)?|penalty|penalties|garantias?|warrant(?:y|ies)|"
            r"obligaci?on(?:es)?|obligations?|confidencialidad|confidentiality"
        ),
    ),
    (
        Need.DOCUMENTS,
        3,
        (
            r"what (?:do|does|did) .{1,60} (?:say|state|require|specify|establish|mention)|"
            r"que (?:dice|dicen|establece|establecen|indica|exige|exigen|estipula|pone)|according to|"
            r"segun (?:el|la|los|las|nuestr[oa]s?)|says? about|sobre que"
        ),
    ),
    (
        Need.DOCUMENTS,
        2.5,
        (
            r"how (?:do|should|can|to|must)|como (?:se|debo|puedo|podemos|hago|hacer|solicit\w+|"
            r"funciona|pido|tramit\w+|gestion\w+)|what happens (?:if|when)|que (?:pasa|ocurre|"
            r"sucede) (?:si|cuando)|can (?:i|we|employees)|(?:se )?(?:puede|puedo|podemos|pueden)\b|"
            r"is it allowed|are .{1,40} allowed|esta permitido|who is responsible|"
            r"quien es (?:el )?responsable|am i entitled|must we|must i|hay que"
        ),
    ),
    (
        Need.DOCUMENTS,
        2,
        (
            r"manual|handbook|guide|guia|reglamento|regulation|normativa|document\w*|annex|anexo|"
            r"articulo|article|seccion|section|plazos?|deadline|notice period|preaviso|derecho|"
            r"how long|cuanto (?:tiempo|dura|tardan?)|entitled|steps|pasos|define|definicion|definition|explain|"
            r"explica\w*|resume\w*|summari[sz]e|summary|se repiten?|recur\w*|in common|en comun|comunes|jurisdicci?on|"
            r"terminat\w+|rescision|resolucion|tope|limite|limit|cap"
        ),
    ),
    (
        Need.DOCUMENTS,
        1,
        (
            r"what is|what are|que es|que son|why|por que|describe|cuales son (?:los|las)|when (?:can|"
            r"should|must)"
        ),
    ),
    (
        Need.WEB,
        4,
        (
            r"weather|forecast|que tiempo hace|tiempo (?:hara|hace)|el tiempo en|clima (?:en|de)|news|"
            r"noticias?|headlines?|titulares?|exchange rate|tipo de cambio|stock price|share price|"
            r"cotiza\w*|cotizacion|bolsa|on the (?:web|internet|news)|en (?:internet|la web|"
            r"las noticias)|search the web|google|world cup|mundial de"
        ),
    ),
    (
        Need.WEB,
        3,
        (
            r"(?:current|today s|live|market) (?:price|rate|value|market)|price of .{1,40}(?:today|"
            r"now)|precio (?:actual|de mercado|de hoy)|precio del? .{1,40}\b(?:hoy|ahora)|"
            r"inflation|inflacion|who won|quien gano|latest version|ultima version|"
            r"estan? (?:subiendo|bajando|cayendo|creciendo)|(?:is|are) (?:rising|falling|going (?:up|down)|growing)"
        ),
    ),
    (
        Need.WEB,
        2,
        (
            r"today|hoy|right now|ahora mismo|currently|actualmente|current|actual|latest|this week|"
            r"esta semana|yesterday|ayer|recently|recientemente|breaking|competitors?|"
            r"competidor(?:es)?|competencia|mercado|market"
        ),
    ),
)
_PATTERNS = [(need, weight, re.compile(rf"\b(?:{words})\b")) for need, weight, words in _SIGNS]


def sign_scores(text: str) -> dict[Need, float]:
    """How much the words of a text speak for each need; the same kind of word counts twice at most."""
    folded = fold(text)
    scores: dict[Need, float] = {need: 0 for need in Need}
    for need, weight, pattern in _PATTERNS:
        found = {match[0] for match in pattern.finditer(folded)}
        scores[need] += weight * min(2, len(found))
    return scores
