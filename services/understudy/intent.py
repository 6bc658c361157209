"""Splits a question into parts and says which tool each part is for, by rules of thumb."""

import re
from dataclasses import dataclass
from datetime import date

from services.runtime.expressions.dates import date_ranges
from services.runtime.expressions.quantities import comparisons
from services.understudy.arithmetic import arithmetic
from services.understudy.schema_words import SchemaWords
from services.understudy.signs import Need, sign_scores
from services.understudy.sql_request import blank, codes, without_codes
from services.understudy.words import content, fold, stem


@dataclass(frozen=True)
class Part:
    """A piece of the question. `stage` is 0, and one more after each `then`: stages are run one after the other."""

    text: str
    need: Need
    stage: int


_ASKING = (
    r"(?:(?:en|a|de|con|por|para|in|at|for|with|on|to)\s+)?(?:que|cual|cuales|cuant[oa]s?|"
    r"quien|quienes|como|cuando|donde|which|what|how|who|when|where|whose|why|is there|"
    r"are there|is it|is the|do we|does|did|dime|di|tell|list|lista|summari[sz]e|resume|"
    r"explica|explain|busca|find|search|look up|dame|give|muestra|show|hay|tiene[ns]?)"
)
_BREAK = re.compile(
    rf"\s*(?:[?;]+|[.!](?=\s))\s*|\s*,?\s+(?:y|e|and|pero|but|ademas|also|as well as|"
    rf"asi como)\s+(?:also\s+|ademas\s+|tambien\s+)?(?={_ASKING}\b)|,\s+(?={_ASKING}\b)"
)
_THEN = re.compile(
    r"\s*[,;.]?\s*\b(?:(?:y|and)\s+)?(?:then|luego|despues|a continuacion|afterwards|next|"
    r"finalmente|finally)\b\s*,?\s*(?!del?\b)"
)
_FOR_WHAT_TOTAL = re.compile(
    r"^(?:por|para|for|with|con|de|a)\s+(?:que|what|which|cuanto|how much)\b|^(?:what|que|"
    r"cual(?: es)?)\s+(?:is\s+)?(?:the\s+|el\s+|su\s+|their\s+)?(?:total|importe|valor|amount|"
    r"value|suma|sum|media|average|promedio)\b|^(?:what|how much) do (?:they|these|those) |"
    r"^cuanto (?:suman?|importan|valen)\b|^(?:who|quien(?:es)?)\b|"
    r"^(?:con|with|de|of) (?:que|cual|which|what|quien|whom)\b"
)

_TALK = re.compile(
    r"^\W*(?:(?:hola|buen[oa]s(?: (?:dias|tardes|noches))?|hello|hi|hey|good (?:morning|"
    r"afternoon|evening|night)|gracias|muchas gracias|mil gracias|thanks?(?: you)?(?: (?:so|"
    r"very) much| a lot)?|thank you|adios|hasta luego|bye|goodbye|see you(?: later)?|"
    r"ok(?:ay)?|vale|perfecto|perfect|great|genial|de acuerdo|estupendo|nice|cool|"
    r"que tal(?: estas)?|como estas|how are you(?: (?:today|doing))?|encantad[oa]|por todo|"
    r"for (?:your|the) help|por (?:tu|la|su) ayuda|everyone|a todos|there|sabueso|si|no|yes|"
    r"please|por favor)\W*)+$"
)
_ABOUT = re.compile(
    r"\b(?:who are you|what are you|what can you do|what is your name|quien eres|que eres|"
    r"que puedes hacer|como te llamas|que sabes hacer|en que (?:me )?puedes ayudar|"
    r"how can you help)\b"
)
_WRITING = re.compile(
    r"^\W*(?:(?:can you|could you|please|por favor|puedes)\s+)?(?:translate|traduce|traducir|"
    r"rewrite|reescribe|tell me a joke|cuentame un chiste|write (?:me )?a (?:poem|song|story|"
    r"joke)|escribe(?:me)? un (?:poema|cuento|chiste))\b"
)
_POINTING = re.compile(
    r"\b(?:those|these|them|they|their|such|it|its|that|es[oae]s?|est[oae]s?|ell[oa]s|sus?|"
    r"dich[oa]s?|l[oa]s mism[oa]s|se repiten?|recur|in common|en comun|comunes|common)\b"
)


def recurring(text: str) -> bool:
    """Whether a question asks what comes again and again."""
    return bool(
        re.search(
            (
                r"\b(?:se repiten?|repetid[oa]s?|recur\w*|recurrentes?|in common|en comun|comunes|common|"
                r"habituales|frecuentes?|most frequent|usual|typical|tipicas?)\b"
            ),
            fold(text),
        )
    )


def points_back(text: str) -> bool:
    """Whether a part leans on another, as in `those contracts` or `which recur`."""
    return bool(_POINTING.search(text.lower()))  # with accents: `está` points nowhere


def split(question: str) -> list[tuple[str, int]]:
    """The parts of a question with their stages; text that asks nothing of its own stays with its neighbour."""
    parts: list[tuple[str, int]] = []
    stage = 0
    for step in _cut(question, _THEN):
        if not content(step) and not re.search(r"\w", step):
            continue
        pieces = [piece for piece in _cut(step, _BREAK) if re.search(r"\w", piece)]
        merged: list[str] = []
        for piece in pieces:
            folded = fold(piece)
            if merged and (_FOR_WHAT_TOTAL.search(folded) or len(content(piece)) == 0):
                merged[-1] = f"{merged[-1]}, {piece}"
            else:
                merged.append(piece)
        parts += [(piece, stage) for piece in merged]
        stage += bool(merged)
    return parts or [(question, 0)]


def _cut(text: str, pattern: re.Pattern[str]) -> list[str]:
    folded, pieces, at = fold(text), list[str](), 0
    for match in pattern.finditer(folded):
        pieces.append(text[at : match.start()])
        at = match.end()
    return [piece.strip(" \t\n,") for piece in (*pieces, text[at:])]


def need_of(text: str, words: SchemaWords | None) -> Need:
    """What one part needs. `words` are those of the database, if there is one."""
    if is_talk(text):
        return Need.TALK
    scores = sign_scores(text)
    compared, dated = comparisons(text), date_ranges(text, date(2000, 1, 1))
    scores[Need.SQL] += 2.5 * bool(compared) + 1.0 * bool(dated)
    if words is not None:
        known = [word for word in {stem(word) for word in content(text)} if words.table_of(word)]
        values = words.values(text)
        scores[Need.SQL] += 1.0 * min(2, len(known)) + 0.7 * min(2, len(values))
        if _counts_what_no_table_holds(text, words):
            scores[Need.SQL] -= 3
        told = [(one.start, one.end) for one in (*values, *compared, *dated)]
        scores[Need.SQL] -= _beside_tables(blank(text, told), words)
        if not known and scores[Need.WEB]:
            scores[Need.WEB] += 1
    elif _counts_time(text):
        scores[Need.SQL] -= 3
    if scores[Need.DOCUMENTS] >= 5 and scores[Need.SQL] < 3:
        scores[Need.DOCUMENTS] += 2
    best = max((Need.SQL, Need.DOCUMENTS, Need.WEB), key=lambda need: scores[need])
    if best is Need.SQL and scores[best] < _SURE:
        return Need.DOCUMENTS
    if scores[best] > 0:
        return best
    return Need.DOCUMENTS if content(text) else Need.TALK


# Less than any sign of a database: a lone value, such as the name of a region, is in documents too.
_SURE = 1.0
_COUNTED_TIME = re.compile(
    r"\b(?:how many|cuant[oa]s)\s+(?:\w+\s+)?(?:days?|hours?|weeks?|months?|years?|minutes?|"
    r"dias?|horas?|semanas?|mes(?:es)?|anos?|minutos?)\b"
)
_COUNTED_NOUN = re.compile(r"\b(?:how many|cuant[oa]s)\s+((?:\w+\s*){1,3})")


def _counts_what_no_table_holds(text: str, words: SchemaWords) -> bool:
    """`How many days of notice` asks a document, unless the database holds days."""
    match = _COUNTED_NOUN.search(fold(text))
    nouns = [stem(word) for word in content(match[1])] if match else []
    columns = [words.column_of(noun) for noun in nouns]
    held = any(map(words.table_of, nouns)) or any(place and not place.column.is_date for place in columns)
    return bool(nouns) and not held


# Words of asking for numbers, of which no table has a column.
_OF_NUMBERS = frozenset(
    map(
        stem,
        "sum suma sumar add total average media mean number numero list lista largest mayor first primer last ultimo "
        "still sigue siguen money dinero remain queda".split(),
    )
)


def _beside_tables(text: str, words: SchemaWords) -> float:
    """How much the words of a text without its values, dates and amounts speak against a table: those that none has.

    Of a thing that goes by a code less is said: a column where there is nothing else, and hardly one where there is.
    """
    coded = bool(codes(text))
    asked = {stem(word) for word in content(without_codes(text)) if not any(map(str.isdigit, word))} - _OF_NUMBERS
    unknown = {one for one in asked if not words.knows(one)}
    if coded and not unknown and any(map(words.column_of, asked)):
        return -3
    return 4 if len(unknown) > (1 if coded else 2) * max(1, len(asked - unknown)) else 0


def _counts_time(text: str) -> bool:
    """`In how many days` asks for a term, which is in a document unless a database that we can see holds it."""
    return bool(_COUNTED_TIME.search(fold(text)))


def is_talk(text: str) -> bool:
    """Greetings, thanks, questions about the assistant, arithmetic and writing: nothing that a tool knows."""
    folded = fold(text)
    return (
        not re.search(r"\w", text)
        or bool(_TALK.match(folded) or _ABOUT.search(folded) or _WRITING.match(folded))
        or arithmetic(text) is not None
    )
