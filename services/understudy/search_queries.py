"""Fills in the forms by which an agent has queries for document search written, with rules in place of a model.

A form is known by the names of its fields. What comes out is made of the question's own words, of those that the
glossary holds to mean the same, and of a few frames: it shows the way a query takes, not what a model would find.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from services.understudy.conversation import Conversation
from services.understudy.glossary import equivalents, synonyms
from services.understudy.intent import points_back, split
from services.understudy.premise_words import FRAME
from services.understudy.sql_request import codes
from services.understudy.words import alike, content, fold, language, stem, stems

_WORD = re.compile(r"[^\W_]+(?:[-./][^\W_]+)*")
_FRAMES = {
    "es": {
        "passage": "Sobre {topic}, el documento establece lo siguiente: {words}.",
        "broader": "¿Qué normas y condiciones generales hay sobre {topic}?",
        "about": "información sobre {topic}",
    },
    "en": {
        "passage": "On {topic}, the document states the following: {words}.",
        "broader": "What are the general rules and conditions about {topic}?",
        "about": "information about {topic}",
    },
}
_NAME = r"[A-ZÁÉÍÓÚÑ][\w&.-]*(?:\s+[A-ZÁÉÍÓÚÑ][\w&.-]*)*"
_ITEM = r"(?:(?:the|el|la|los|las)\s+)?[\w-]+"
# Coordinated things: names, what stands after `between`, and lists with commas.
_COORDINATED = (
    re.compile(rf"(?:\b(?:between|entre)\s+)?\b({_NAME})\s+(?:and|or|y|e|o|u|vs\.?|versus)\s+({_NAME})"),
    re.compile(rf"\b(?:between|entre)\s+({_ITEM})\s+(?:and|y|e)\s+({_ITEM})", re.I),
    re.compile(rf"\b({_ITEM}(?:,\s+{_ITEM})+),?\s+(?:and|or|y|e|o|u)\s+({_ITEM})", re.I),
)
_COMPARING = re.compile(
    r"(?:\b(?:qu[ée]|cu[áa]l(?:es)?|what|which)\s+)?(?:\b(?:is|are|es|son|hay)\s+)?(?:\b(?:the|las?)\s+)?"
    r"\b(?:compar(?:e|a)\w*|diff?eren(?:ces?|cias?))\b(?:\s+(?:hay|(?:is|are) there))?(?:\s+(?:of|de|in|en)\b)?",
    re.I,
)
_FILLER = re.compile(r"^(?:hay|existen?|compar(?:e|a)\w*|diff?eren(?:ces?|cias?)|between|entre)$", re.I)
_MAX_TOPIC_WORDS, _MAX_WORDS, _ENOUGH = 12, 8, 0.75


def write(conversation: Conversation, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form filled in; None for a schema that is none of these forms."""
    properties = schema.get("properties")
    fields = frozenset(cast(dict[str, Any], properties)) if isinstance(properties, dict) else frozenset[str]()
    writer = _FORMS.get(fields)
    return writer(conversation) if writer else None


def _passage(conversation: Conversation) -> dict[str, Any]:
    text = conversation.question
    spoken = language(text)
    others = [other for word in telling(text) for other in synonyms(fold(word), spoken)]
    words = ", ".join(dict.fromkeys([*others, *telling(text)][:_MAX_WORDS]))
    return {"hypothetical_passage": _FRAMES[spoken]["passage"].format(topic=_topic(text), words=words)}


def _paraphrases(conversation: Conversation) -> dict[str, Any]:
    return {"paraphrases": reworded(conversation.question)}


def _sub_questions(conversation: Conversation) -> dict[str, Any]:
    return {"sub_questions": taken_apart(conversation.question)}


def _broader(conversation: Conversation) -> dict[str, Any]:
    text = conversation.question
    topic = " ".join(word for word in _topic(text).split() if not any(char.isdigit() for char in word))
    return {"broader_question": _FRAMES[language(text)]["broader"].format(topic=topic or _topic(text))}


def _next_search(conversation: Conversation) -> dict[str, Any]:
    """Enough is found when most words of the question occur in the passages; else the others are searched."""
    try:
        told = json.loads(conversation.question)
        question = str(told["question"])
        found = " ".join(f"{one['title']} {one['section']} {one['text']}" for one in told["passages"])
    except (ValueError, TypeError, KeyError):
        return {"sufficient": True, "next_query": ""}
    known = set(stems(found))
    wanted = telling(question)
    missing = [word for word in wanted if not all(_occurs(one, known) for one in stems(word))]
    if not wanted or len(missing) <= (1 - _ENOUGH) * len(wanted):
        return {"sufficient": True, "next_query": ""}
    return {"sufficient": False, "next_query": " ".join(missing)}


def _plan(conversation: Conversation) -> dict[str, Any]:
    text = conversation.question
    if codes(text):
        return {"transform": "none", "queries": []}
    if parts := taken_apart(text):
        return {"transform": "decompose", "queries": parts}
    spoken = language(text)
    if any(synonyms(fold(word), spoken) for word in telling(text)):
        return {"transform": "multi_query", "queries": reworded(text)}
    return {"transform": "none", "queries": []}


def _standalone(conversation: Conversation) -> dict[str, Any]:
    """The follow-up with the question before it; where only a word points back, with that question's telling words."""
    text, whole = conversation.question, conversation.whole_question
    leans = points_back(text) or not content(text)
    if whole == text and conversation.earlier and leans:
        own = set(stems(text))
        more = [word for word in telling(conversation.earlier) if stem(fold(word)) not in own]
        whole = f"{text.strip().rstrip('?.')}, {' '.join(more)}" if more else text
    return {"standalone_query": " ".join(whole.split())}


_FORMS: Mapping[frozenset[str], Callable[[Conversation], dict[str, Any]]] = {
    frozenset({"hypothetical_passage"}): _passage,
    frozenset({"paraphrases"}): _paraphrases,
    frozenset({"sub_questions"}): _sub_questions,
    frozenset({"broader_question"}): _broader,
    frozenset({"sufficient", "next_query"}): _next_search,
    frozenset({"transform", "queries"}): _plan,
    frozenset({"standalone_query"}): _standalone,
}


def telling(text: str) -> list[str]:
    """The words that carry meaning, as written, without those of asking."""
    words = (word for word in _WORD.findall(text) if content(word) and not _FILLER.match(word))
    return list(dict.fromkeys(word for word in words if stem(fold(word)) not in FRAME))


def _topic(text: str) -> str:
    """From the first telling word to the last, with what joins them."""
    words = [word for word in text.split() if not _FILLER.match(word.strip(" ¿?¡!.,;:"))]
    places = [index for index, word in enumerate(words) if telling(word)]
    kept = words[places[0] : places[-1] + 1][:_MAX_TOPIC_WORDS] if places else words[:_MAX_TOPIC_WORDS]
    return " ".join(kept).strip(" ¿?¡!.,;:")


def _occurs(stemmed: str, known: set[str]) -> bool:
    return any(alike(one, other) for one in {stemmed, *equivalents(stemmed)} for other in known)


def reworded(text: str) -> list[str]:
    """With the first and the second words that mean the same, and as keywords."""
    spoken = language(text)
    versions = [_replaced(text, spoken, choice) for choice in (0, 1)]
    versions.append(" ".join(telling(text)) or _FRAMES[spoken]["about"].format(topic=_topic(text)))
    return [one for one in dict.fromkeys(versions) if one.strip() and one != text] or [
        _FRAMES[spoken]["about"].format(topic=_topic(text))
    ]


def _replaced(text: str, spoken: str, choice: int) -> str:
    def other(match: re.Match[str]) -> str:
        known = synonyms(fold(match[0]), spoken)
        return known[min(choice, len(known) - 1)] if known else match[0]

    return _WORD.sub(other, text)


def taken_apart(text: str) -> list[str]:
    """The questions that a text asks: by its conjunctions, or one for each of the things that it names together."""
    parts = [part for part, _ in split(text)]
    if len(parts) > 1:
        return [_completed(part, parts[0]) if index else part for index, part in enumerate(parts)][:4]
    for pattern in _COORDINATED:
        match = pattern.search(text)
        if match:
            things = [*re.split(r",\s+", match[1]), match[2]]
            versions = [text[: match.start()] + thing + text[match.end() :] for thing in things]
            return [" ".join(_COMPARING.sub("", one).split()).replace("¿ ", "¿") for one in versions][:4]
    return []


def _completed(part: str, first: str) -> str:
    """A part that points back, with the telling words of the first."""
    return f"{part}, {' '.join(telling(first))}" if points_back(part) else part
