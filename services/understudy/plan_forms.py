"""Fills in the forms of an agent that plans: the steps that answer a question, and what is missing after them.

A form is known by the names of its fields. Steps are the parts that the question's own words show; what only a model
could see, such as that an answer needs a fact that the question does not name, stays unseen.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from services.understudy.conversation import Conversation
from services.understudy.evidence import json_within
from services.understudy.intent import is_talk, need_of, points_back, recurring, split
from services.understudy.search_queries import reworded, taken_apart, telling
from services.understudy.signs import Need, sign_scores
from services.understudy.sql_request import codes, proper_nouns, quoted
from services.understudy.words import fold, language, sentences

_SPECIALISTS = {Need.SQL: "sql", Need.DOCUMENTS: "documents", Need.WEB: "web"}
_MAX_STEPS, _MAX_NAMES = 6, 3
_MARKS = re.compile(r"\s*\[\d+\]")
# `the capital of the country that won …`: what is asked of a thing that is only described.
_DESCRIBED = re.compile(
    r"(?P<of>\b(?:of|in|from|by|for|to|with|de|en|por|para|con|a)\s+)"
    r"(?P<thing>(?:the|el|la|los|las)\s+(?:\w+\s+){1,3}?)"
    r"(?:(?:that|which|who|whose|where|que|cuy[oa]s?|donde)\s+)(?P<says>[^,;?]{8,})(?P<end>[?\s]*)$",
    re.I,
)
_ARTICLE = re.compile(r"^(?:the|el|la|los|las)\s+", re.I)


def write(conversation: Conversation, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form filled in; None for a schema that is none of these forms."""
    fields = frozenset(_object(schema.get("properties")))
    writer = _FORMS.get(fields)
    return writer(conversation, schema) if writer else None


def _plan(conversation: Conversation, schema: Mapping[str, Any]) -> dict[str, Any]:
    there = _specialists(schema)
    steps = _described(conversation.whole_question) or _parts(conversation.whole_question)
    return {
        "steps": [
            {"id": f"s{number}", "question": step.text, "specialist": step.specialist(there), "depends_on": step.needs}
            for number, step in enumerate(steps[:_MAX_STEPS], 1)
        ]
    }


@dataclass(frozen=True)
class _Step:
    """A part of a question. `context`: words of another part that make it understandable by itself."""

    own: str
    needs: Sequence[str] = ()
    context: str = ""

    @property
    def text(self) -> str:
        """The question of the step."""
        return f"{self.own}, {self.context}" if self.context else self.own

    def specialist(self, there: Sequence[str]) -> str:
        """Whose it is, where its own words say so."""
        need = need_of(self.own, None)
        name = _SPECIALISTS.get(need, "") if sign_scores(self.own)[need] > 0 else ""
        return name if name in there else ""


def _parts(question: str) -> list[_Step]:
    """The parts of a question, each understandable by itself, and those that each leans on."""
    pieces = [(text, stage) for text, stage in split(question) if not is_talk(text)]
    if len(pieces) < 2:
        return [_Step(one) for one in taken_apart(question) or [question]]
    steps: list[_Step] = []
    for number, (text, stage) in enumerate(pieces):
        points = number > 0 and points_back(text)
        # What recurs is a property of what is found, not of what another part finds.
        leans = points and not recurring(text)
        needs = [f"s{n}" for n, (_, other) in enumerate(pieces[:number], 1) if other < stage or (leans and n == number)]
        steps.append(_Step(text, needs, " ".join(telling(pieces[0][0])) if points and not needs else ""))
    return steps


def _described(question: str) -> list[_Step]:
    """`What is the capital of the country that won?` → which country won, then the capital of that country."""
    match = _DESCRIBED.search(question) if len(split(question)) == 1 else None
    if match is None:
        return []
    thing, says = _ARTICLE.sub("", match["thing"]).strip(), match["says"].strip()
    before = f"{question[: match.start()]}{match['of']}"
    if language(question) == "es":
        return [_Step(f"¿Qué {thing} {says}?"), _Step(f"{before}ese {thing}?", ["s1"])]
    return [_Step(f"Which {thing} {says}?"), _Step(f"{before}that {thing}?", ["s1"])]


def _check(conversation: Conversation, schema: Mapping[str, Any]) -> dict[str, Any]:
    """What was not found is looked for once more, in other words and with every tool."""
    told = json_within(conversation.question)
    steps = [_object(one) for one in cast(list[Any], told.get("steps") or [])]
    # A step that could not work at all, or had nothing to go on, is not mended by other words.
    again = [str(one.get("question", "")) for one in steps if not one.get("found") and _was_searched(one)]
    new = [(question, words) for question in again for words in reworded(question)[:1]]
    return {
        "enough": not new,
        "missing": "; ".join(question for question, _ in new),
        "steps": [
            {"id": f"n{number}", "question": words, "specialist": "", "depends_on": []}
            for number, (_, words) in enumerate(new[:_MAX_STEPS], 1)
        ],
    }


def names_given(found: str) -> list[str]:
    """Names and codes in the answers of earlier steps that their own questions did not hold: what `that` stands for."""
    names: list[str] = []
    for one in map(_object, cast(list[Any], json_within(found).get("steps") or [])):
        question, answer = fold(str(one.get("question", ""))), _MARKS.sub("", str(one.get("answer", "")))
        told = [name for text in sentences(answer) for name, _, _ in (*codes(text), *quoted(text), *proper_nouns(text))]
        names += [name for name in told if fold(name) not in question]
    return list(dict.fromkeys(names))[:_MAX_NAMES]


def _was_searched(step: Mapping[str, Any]) -> bool:
    return fold(str(step.get("problem", ""))) in ("", "nothing was found", "no_evidence")


_FORMS: Mapping[frozenset[str], Callable[[Conversation, Mapping[str, Any]], dict[str, Any]]] = {
    frozenset({"steps"}): _plan,
    frozenset({"enough", "missing", "steps"}): _check,
}


def _specialists(schema: Mapping[str, Any]) -> Sequence[str]:
    """Those that the form lets one choose from."""
    step = _object(_object(_object(schema.get("properties")).get("steps")).get("items"))
    values = _object(_object(step.get("properties")).get("specialist")).get("enum")
    return [str(one) for one in cast(list[Any], values)] if isinstance(values, list) else []


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}
