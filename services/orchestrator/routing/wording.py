"""Questions as words: stems of both languages, what politeness adds, and the parts of a question that asks twice."""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, cast

import snowballstemmer
import yaml

from services.runtime.expressions.folding import fold

_WORD = re.compile(r"[^\W_]+")
_snowball: Any = snowballstemmer  # it has no types
_STEMMERS: tuple[Any, ...] = tuple(_snowball.stemmer(name) for name in ("spanish", "english"))

_GREETING = (
    r"(?:hola|oye|oiga|buen(?:os|as) (?:d[ií]as|tardes|noches)|hi|hello|hey|good (?:morning|afternoon|evening))"
    r"(?: there| a tod[oa]s)?"
)
_REQUEST = (
    r"(?:por favor|please|a ver)"
    r"|(?:me )?(?:puedes?|podr[ií]as?)(?: por favor)?(?: (?:decir|contar|explicar|indicar|confirmar)(?:me|nos)?)?"
    r"|(?:can|could|would|will) you(?: please)?(?: (?:tell|show|give|let) (?:me|us)(?: know)?)?"
    r"|(?:me gustar[ií]a|quisiera|quiero|necesito|querr[ií]a) saber|(?:i(?:'d| would) like|i want|i need) to know"
    r"|(?:dime|decidme|d[ií]game|tell me|let me know)|(?:do you know|sabes)"
)
_OPENING = re.compile(rf"^[\s¿¡]*(?:(?:{_GREETING}|{_REQUEST})(?![\w'])[\s,.:;!¡¿-]*)+", re.IGNORECASE)
_CLOSING = re.compile(
    r"[\s,.;]*(?<!\w)(?:por favor|please|(?:muchas )?gracias|thank you|thanks(?: a lot)?)(?:[\s.!]*(?=\?)|[\s.!]*$)",
    re.IGNORECASE,
)
_ASKS = (
    r"(?:(?:in|for|with|by|to|on|of|from|en|con|para|por|de|a)\s+)?(?:what|which|how|who|whose|when|where|why|does|do|"
    r"qu[ée]|cu[áa]l(?:es)?|cu[áa]nt[oa]s?|qui[ée]n(?:es)?|c[óo]mo|cu[áa]ndo|d[óo]nde)\b"
)
_ASKING = re.compile(rf"¿?(?:{_ASKS}|(?:is|are|can|may|has|have|did|es|hay|puedo|se)\b)", re.IGNORECASE)
_SPANISH_ASKING = re.compile(
    r"(?:(?:en|con|para|por|de|a)\s+)?(?:qu|cu|c[óo]mo|d[óo]nde|es|hay|puedo|se)", re.IGNORECASE
)
_NEXT = re.compile(
    rf"(?:[,;]?\s+(?:and|y|e|as well as|así como|además de|also|plus)\s+|[,;]\s+)(?={_ASKS})|(?<=[?!])\s+(?=\W*\w)"
    r"|(?<=[^\W\d]{2}\.)\s+(?=[A-ZÁÉÍÓÚÑ¿¡])",
    re.IGNORECASE,
)
_MAX_PARTS = 4
# Where another source may begin, be it in the middle of a sentence: `more than what we agreed`, `según la norma`.
_JOINT = re.compile(
    r"\s*[,;:?!]\s+(?:(?:and|y|e|but|pero|plus)\s+)?|\s+[-–—]\s+|\s+(?:and|y|e|plus|vs\.?|versus|but|pero|"
    r"además de|as well as|compared (?:with|to)|against|frente a|than (?:what|the|that|those)|"
    r"(?:de )?(?:lo|la|los|las|del|el) que|"
    r"que(?= (?:el|la|los|las|nuestr\w+|marca|fija|prevé|establece|exige|permite))|"
    r"with (?:the|our|what)|con (?:el|la|lo|los|las)|según|according to|\+|going by|under (?:the|our))\s+",
    re.IGNORECASE,
)
_MAX_FRAGMENTS, _LEAST_WORDS = 5, 2
# Passages wanted where one search must show what many documents have.
WIDE_TOP_K = 20


@cache
def word_lists() -> Mapping[str, frozenset[str]]:
    """The lists of words.yaml, folded."""
    text = files("services.orchestrator.routing").joinpath("words.yaml").read_text(encoding="utf-8")
    lists = cast(dict[str, str], yaml.safe_load(text))
    return {name: frozenset(fold(words).split()) for name, words in lists.items()}


def tokens(text: str) -> list[tuple[str, int, int]]:
    """Folded words and numbers with their places in the text."""
    return [(match.group(), *match.span()) for match in _WORD.finditer(fold(text))]


@lru_cache(maxsize=20_000)
def stems(word: str) -> frozenset[str]:
    """The stems of a folded word, as Spanish and as English: two words are one if they share one."""
    if word.isdigit():
        return frozenset((word,))
    return frozenset(f"{index}:{stemmer.stemWord(word)}" for index, stemmer in enumerate(_STEMMERS))


def stems_of(text: str) -> frozenset[str]:
    """The stems of all words of a text."""
    return frozenset(stem for word, _, _ in tokens(text) for stem in stems(word))


def cleaned(question: str) -> str:
    """The question without greeting, politeness and thanks; as it is where nothing else would be left."""
    text = " ".join(question.split())
    opened = _OPENING.sub("", text, count=1)
    if "¿" in text[: len(text) - len(opened)] and "?" in opened:
        opened = "¿" + opened
    opened = _CLOSING.sub("", opened).strip(" ,;")
    return opened if _WORD.search(opened) else text


def punctuated(text: str) -> str:
    """The text as the examples are written: people type with and without capitals and marks, and mean the same."""
    text = text[:1].upper() + text[1:]
    if not _ASKING.match(text) or text.endswith(("!", ".", ":")):
        return text
    return f"{'¿' if _SPANISH_ASKING.match(text) else ''}{text.rstrip('?')}?"


def document_search(question: str, text: str = "") -> dict[str, Any]:
    """Arguments of a document search for `text`, a part of the question: wide where many documents are asked about.

    Which ones they are the other part says (`… and which conditions recur?`): then the whole question is searched.
    """
    wide = any(word in word_lists()["wide"] for word, _, _ in tokens(text or question))
    return {"query": question, "top_k": WIDE_TOP_K} if wide else {"query": text or question}


def parts(question: str) -> list[str]:
    """What a question asks one after another, in its words; one part where it asks one thing."""
    pieces = [piece.strip(" ,;") for piece in _NEXT.split(question, maxsplit=_MAX_PARTS - 1)]
    found = [piece for piece in pieces if _WORD.search(piece)]
    return found or [question]


def fragments(question: str) -> list[str]:
    """Smaller than its parts, and not always sentences, for telling what it is about. None where there is no joint."""
    pieces = [piece.strip(" ¿?¡!.,;:") for piece in _JOINT.split(question)]
    found = [piece for piece in pieces if len(_WORD.findall(piece)) >= _LEAST_WORDS]
    return found[:_MAX_FRAGMENTS] if len(found) > 1 else []
