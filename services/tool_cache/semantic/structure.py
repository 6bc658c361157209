"""Who does what to whom: the parts of a question in one order, whatever the order in which it was put.

Only what is known not to change the meaning is moved: "payment terms of the contract" and "contract payment terms", the
place of a date, "signed by Laura" and "that Laura signed". All else stays where it was.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from services.tool_cache.semantic.asked import asked, join_attribute, told_by_question
from services.tool_cache.semantic.parts import Canonical, Part
from services.tool_cache.semantic.phrases import PhraseBuilder
from services.tool_cache.semantic.verbs import settled
from services.tool_cache.semantic.vocabulary import Item

# "customers sent invoices": those who sent them, or those who were sent them.
_TWO_OBJECTS = {"pay", "send", "sell", "offer", "give", "owe", "issue", "award", "charge", "assign", "lend", "deny"}


def arranged(items: Sequence[Item], language: str) -> Canonical:
    """The items in one order: two questions may be alike only if theirs are equal."""
    if items and items[0].kind == "verb" and items[0].person in ("ing", "inf"):
        # "configuring SSO" asks how to.
        items = [Item("question", "how"), *items]
    builder = PhraseBuilder(language)
    for item in settled(items, language):
        builder.add(item)
    parts = _ranges(_with_years(builder.finished()))
    questions = [item.value for item in items if item.kind == "question"]
    join_attribute(parts, language)
    if items and items[0].kind == "asked":
        parts = told_by_question(parts)
    questions = asked(parts, questions, items, language)
    if "who" not in questions:
        _name_agent(parts, language)
    return (*(("question", value) for value in questions), *_ordered(parts, questions, language))


def _with_years(parts: list[Part]) -> list[Part]:
    """The year of the second month is that of the first: "January to March 2025"."""
    dates = [part for part in parts if part.kind == "date"]
    for one, following in pairwise(dates):
        if one.words[0].startswith("@--") and following.words[0][1:5].isdigit() and len(following.words[0]) > 5:
            one.words[0] = f"@{following.words[0][1:5]}{one.words[0][2:]}"
    return parts


def _ranges(parts: list[Part]) -> list[Part]:
    """One period of "from January to March" and of "between January and March"."""
    made: list[Part] = []
    for part in parts:
        before = made[-1] if made else None
        if (
            before is not None
            and not before.negated + part.negated
            and before.kind == part.kind == "date"
            and len(before.words) == 1
        ):
            pair = before.role, part.role
            if (
                pair in (("from", "to"), ("from", "until"), ("between", "between"), ("when", "to"))
                and part.before != "or"
            ):
                before.role, before.words = "range", [*before.words, *part.words]
                continue
        made.append(part)
    return made


def _name_agent(parts: list[Part], language: str) -> None:
    """Makes "by Laura" of the Laura who signs: the only one who acts, beside a thing, next to a verb of people."""
    bare = [part for part in parts if part.kind == "phrase" and not part.role]
    acting = [part for part in bare if part.acts and part.words != ["_we"]]
    verbs = [part for part in parts if part.kind == "verb"]
    if len(acting) != 1 or len(bare) != 2 or len(verbs) != 1 or not verbs[0].verb.human or acting[0].before:
        return
    at, verb_at = parts.index(acting[0]), parts.index(verbs[0])
    voice = verbs[0].verb.voice
    subject = (
        at == verb_at - 1 and bare[1] is acting[0] and voice in ("active", "unclear")
        if language == "en"
        else (abs(at - verb_at) == 1 and voice == "active")
    )
    if subject:
        acting[0].role = "by agent" if language == "en" else "by"
        verbs[0].verb = replace(verbs[0].verb, voice="unclear")


def _ordered(parts: list[Part], questions: Sequence[str], language: str) -> Canonical:
    """Verbs and dates apart where their place says nothing, all else as it came."""
    verbs = [part for part in parts if part.kind == "verb"]
    bare = [part for part in parts if part.kind == "phrase" and not part.role]
    suffered = any(part.verb.voice == "passive" for part in verbs)
    acting = any(part.acts for part in bare if part.words != ["_we"] or suffered) or "who" in questions
    if not acting and verbs and all(part.verb.human for part in verbs):
        # "contracts we signed" are "contracts signed"; of "suppliers we paid" it must be known who paid.
        parts = [part for part in parts if part.words != ["_we"] or part.role]
    if language == "en" and "who" not in questions:
        _participle_behind(parts)
    for part in verbs:
        part.verb = replace(part.verb, voice=_voice(part, parts, language, acting=acting, how="how" in questions))
    free = [part for part in parts if part.kind == "date"] if len(verbs) < 2 else []
    _bind_dates(parts, free, verbs)
    if len(verbs) == 1:
        free += [] if verbs[0].verb.voice else verbs
        _subject_first(parts, verbs[0], language)
    elif not verbs:
        for part in parts:
            part.role = "by" if part.role == "by agent" else part.role
    fixed = [part for part in parts if not any(part is other for other in free)]
    return tuple(part.written() for part in (*fixed, *sorted(free, key=lambda part: part.kind == "date")))


def _bind_dates(parts: Sequence[Part], dates: Sequence[Part], verbs: Sequence[Part]) -> None:
    """Says to what each date belongs, so that it may be moved: the verb, or a phrase by its main word."""
    for part in dates:
        if not verbs and part.role == "when for":
            part.role = "when"
        if part.bound:
            continue
        at = next(place for place, other in enumerate(parts) if other is part)
        before = [other for other in reversed(parts[:at]) if other.kind != "date"]
        # "contracts signed with EU suppliers in 2025": past phrases that can have no date of their own.
        holder = next((other for other in before if other.kind != "phrase" or not other.role or other.open), None)
        if holder is None:
            holder = next((other for other in (*verbs, *parts) if other.kind != "date"), None)
        part.bound = "" if holder is None or holder.kind != "phrase" else holder.head


def _participle_behind(parts: list[Part]) -> None:
    """Makes "suppliers that are approved" of "approved suppliers"."""
    if len(parts) > 1 and parts[0].kind == "verb" and parts[0].verb.voice == "unclear":
        parts[0].verb = replace(parts[0].verb, voice="passive")
        if parts[1].kind == "phrase" and not parts[1].role:
            parts[0], parts[1] = parts[1], parts[0]


def _voice(part: Part, parts: Sequence[Part], language: str, *, acting: bool, how: bool) -> str:
    """The voice as far as it matters. `acting`: something here can do it to another; `how`: how to is asked."""
    voice, following = part.verb.voice, parts[parts.index(part) + 1 :][:1]
    if part.verb.human and not acting:
        return ""
    if voice == "unclear" and language == "en":
        # "suppliers exceeded their budget": a passive has no object.
        has_object = bool(following) and following[0].kind == "phrase" and not following[0].role
        if has_object and part.verb.value not in _TWO_OBJECTS:
            return "active"
        return voice if acting else "passive"
    if how and voice in ("i", "we", "to", "se"):
        return "to"
    return "passive" if voice in ("se", "unclear") and not acting else voice


def _subject_first(parts: list[Part], verb: Part, language: str) -> None:
    """Spanish asks with the verb first: "¿Cubre el seguro los daños?" is "¿El seguro cubre los daños?"."""
    at = parts.index(verb)
    if language != "es" or verb.verb.voice != "active" or any(part.kind == "phrase" for part in parts[:at]):
        return
    if [(part.kind, part.role) for part in parts[at + 1 : at + 3]] == [("phrase", ""), ("phrase", "")]:
        parts[at], parts[at + 1] = parts[at + 1], parts[at]
