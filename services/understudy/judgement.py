"""Fills in the forms by which an agent looks at its own work, and sums a conversation up: by words and numbers alone.

A form is known by the names of its fields. What is supported is what the sources' words and figures hold: a rule sees a
changed number or a stranger's name, not a wrong conclusion.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from services.runtime.expressions.quantities import quantities
from services.understudy.conversation import Conversation
from services.understudy.evidence import json_within
from services.understudy.extract import Asked
from services.understudy.intent import is_talk
from services.understudy.sql_request import codes
from services.understudy.words import content, fold, sentences, stems

# Share of a sentence's words that its sources must hold; of a question's words that a passage must hold to help.
_SUPPORTED, _RELEVANT = 0.5, 0.3
# A tenth of a page: what is asked for may be shorter still.
_MAX_SUMMARY_CHARS = 240
# An answer that says what it does not know claims nothing.
_ADMITS = re.compile(
    r"\b(?:no (?:he|hemos|se ha|se han|tengo|dispongo|consta|hay|figura|aparece)\b.{0,40}?(?:encontrado|podido|"
    r"informacion|datos|herramienta)?|(?:did not|could not|cannot|do not|have no|not)\b.{0,30}?(?:find|found|reached?|"
    r"know|tool|information|evidence|enough))\b"
)
_MARK = re.compile(r"\[\d+\]")
_PROSE = re.compile(r"[^\W\d_]{2}[.!?;:](?:\s|$)")


def write(conversation: Conversation, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form filled in; None for a schema that is none of these forms."""
    properties = schema.get("properties")
    fields = frozenset(cast(dict[str, Any], properties)) if isinstance(properties, dict) else frozenset[str]()
    writer = _FORMS.get(fields)
    return writer(conversation) if writer else None


def _needs_evidence(conversation: Conversation) -> dict[str, Any]:
    return {"needs_evidence": not is_talk(conversation.question)}


def _relevant(conversation: Conversation) -> dict[str, Any]:
    """The passages that hold a good part of what is asked, and about as much as the best of them."""
    told = json_within(conversation.question)
    passages = [
        (one.get("number"), stems(f"{one.get('title', '')} {one.get('text', '')}")) for one in _list(told, "passages")
    ]
    asked = Asked(str(told.get("question", "")), [words for _, words in passages])
    shares = [(number, asked.coverage(words)) for number, words in passages]
    least = max(_RELEVANT, max((share for _, share in shares), default=0) / 2)
    return {"relevant": [number for number, share in shares if share >= least]}


def _unsupported(conversation: Conversation) -> dict[str, Any]:
    told = json_within(conversation.question)
    texts = {one.get("number"): str(one.get("text", "")) for one in _list(told, "sources")}
    wrong: list[Any] = []
    for one in [*_list(told, "sentences"), *_list(told, "claims")]:
        cited = one.get("cites")
        cites = cast(list[Any], cited) if isinstance(cited, list) else []
        sources = [texts[number] for number in cites if number in texts] or list(texts.values())
        if not _is_supported(str(one.get("text", "")), sources):
            wrong.append(one.get("number"))
    return {"unsupported": wrong}


def _checked(conversation: Conversation) -> dict[str, Any]:
    wrong = _unsupported(conversation)["unsupported"]
    said = _list(json_within(conversation.question), "sentences")
    good = [one for one in said if one.get("number") not in wrong and not admits(str(one.get("text", "")))]
    return {"unsupported": wrong, "useful": bool(good)}


def admits(sentence: str) -> bool:
    """Whether a sentence only says that something is not known."""
    return bool(_ADMITS.search(fold(sentence)))


def _is_supported(sentence: str, sources: Sequence[str]) -> bool:
    """Whether the sources hold the figures and codes of a sentence, and enough of its words where they are prose."""
    bare = _MARK.sub("", sentence)
    if admits(bare) or not content(bare):
        return True
    text = "\n".join(sources)
    known = {one.value for one in quantities(text)}
    figures = [one.value for one in quantities(bare)]
    if not all(value in known for value in figures):
        return False
    if not all(fold(code) in fold(text) for code, _, _ in codes(bare)):
        return False
    # Rows have columns where prose has words: figures are what they can be held to.
    if figures and not _PROSE.search(text):
        return True
    return Asked(bare, [stems(text)]).coverage(stems(text)) >= _SUPPORTED


def _summary(conversation: Conversation) -> dict[str, Any]:
    """The sentences with most figures, codes and meaning for their length, in their order, as many as fit."""
    told = [one for text in _said(conversation.question) for one in sentences(text) if content(one)]
    worth = {
        one: (len(content(one)) + 6 * len(codes(one)) + 4 * len(quantities(one))) / (len(one) + 40) for one in told
    }
    kept, left = set[str](), _MAX_SUMMARY_CHARS
    for one in sorted(worth, key=lambda one: -worth[one]):
        if len(one) < left:
            left -= len(one) + 1
            kept.add(one)
    summary = " ".join(one for one in dict.fromkeys(told) if one in kept)
    return {"summary": summary or conversation.question[-_MAX_SUMMARY_CHARS:]}


def _said(text: str) -> list[str]:
    """What was said in a conversation, a list of messages as JSON or plain text."""
    messages = _list(json_within(f'{{"messages": {text}}}'), "messages")
    return [str(one.get("text", "")) for one in messages] or [text]


_FORMS: Mapping[frozenset[str], Callable[[Conversation], dict[str, Any]]] = {
    frozenset({"needs_evidence"}): _needs_evidence,
    frozenset({"relevant"}): _relevant,
    frozenset({"unsupported", "useful"}): _checked,
    frozenset({"unsupported"}): _unsupported,
    frozenset({"summary"}): _summary,
}


def _list(told: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    values = told.get(name)
    if not isinstance(values, list):
        return []
    return [cast(Mapping[str, Any], one) for one in cast(list[Any], values) if isinstance(one, dict)]
