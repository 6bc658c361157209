"""Questions that ask for what they name: "How much is the fee?" asks for the fee, "When does it expire?" for a date."""

from collections.abc import Sequence
from dataclasses import replace

from services.tool_cache.semantic.parts import Part
from services.tool_cache.semantic.vocabulary import Item, vocabulary

_DATES_OF = {
    "en": {"": "date", "start": "start date", "end": "end date", "expire": "expiry date"},
    "es": {"": "fecha", "empezar": "fecha inicio", "terminar": "fecha fin", "vencer": "fecha vencer"},
}


def _date_of(parts: list[Part], verbs: Sequence[Part], language: str) -> bool:
    """Makes "expiry date of the contract" of "When does the contract expire?", "date" of "When is it?"."""
    verb = verbs[0] if verbs else None
    name = _DATES_OF[language].get(verb.verb.value if verb is not None else "")
    usual = verb is None or (verb.verb.tense == "n" and not verb.negated and not verb.role)
    others = any(part.kind != "phrase" for part in parts if part is not verb)
    if name is None or len(verbs) > 1 or not usual or others:
        return False
    if verb is not None:
        parts.remove(verb)
    first = parts[0]
    if first.head not in (name, "deadline", "plazo"):
        first.words, first.head, first.leading = [*first.leading, *first.words, name], name, []
    return True


def told_by_question(parts: list[Part]) -> list[Part]:
    """What "which" and "what" say of the verb: "Which suppliers paid?" asks for those who paid, not who were paid.

    "What was the revenue in 2022?" is past by its date.
    """
    if len(parts) > 1 and parts[0].kind == "phrase" and parts[1].kind == "verb" and parts[1].verb.voice == "unclear":
        parts[1].verb = replace(parts[1].verb, voice="active")
    dated = any(part.kind == "date" and part.role == "when" for part in parts)
    past = bool(parts) and not parts[0].negated and parts[0].kind == "modal" and parts[0].words == ["past"] and dated
    return parts[1:] if past else parts


def join_attribute(parts: list[Part], language: str) -> None:
    """Makes "Acme's discount" of "What discount does Acme have?" and of "¿Qué descuento tiene Acme?"."""
    first = parts[0] if parts else None
    alone = first is not None and first.kind == "phrase" and not first.role and not first.negated
    if first is not None and alone and len(parts) > 1 and first.head in vocabulary(language).attributes:
        second, behind = parts[1], parts[2:3]
        plain = second.kind == "phrase" and not second.negated and not second.before
        left = behind and behind[0].kind == "left" and behind[0].role == "with" and not behind[0].negated
        if plain and (second.role == "has" or (not second.role and left)):
            first.words = [*second.leading, *second.words, *first.words]
            del parts[1 : 3 if left else 2]
    for part in parts:
        part.role = part.role.replace("has", "with") if part.role in ("has", "with has") else part.role


def asked(parts: list[Part], questions: list[str], items: Sequence[Item], language: str) -> list[str]:
    """What is asked, without what the thing itself says: "How much is the fee?" asks for the fee."""
    head = next((part for part in parts if part.kind != "verb"), None)
    if len(questions) != 1 or head is None or head.kind != "phrase" or head.role or head.negated:
        return questions
    question, known = questions[0], vocabulary(language)
    verbs = [part for part in parts if part.kind == "verb"]
    if question == "how much" and language == "en" and not verbs and head.head == "cost":
        head.words = [*head.words[:-1], "price"]
        return []
    if question == "when" and _date_of(parts, verbs, language):
        return []
    if any(part.kind in ("verb", "modal", "left") for part in parts):
        return questions
    if question == "who":
        told = any(item.kind == "aux" and item.value == "be" for item in items)
        return [] if told and head.acts and not head.head.startswith(("=", "_")) else questions
    return [] if head.head in known.asked_by_name.get(question, ()) else questions
