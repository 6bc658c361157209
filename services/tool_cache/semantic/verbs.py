"""Gives each verb its tense, voice and modality from the auxiliaries around it; what is left of those stays a word."""

from collections.abc import Sequence
from dataclasses import replace

from services.tool_cache.semantic.vocabulary import Item

_PAST = {"did", "have", "have1", "have3", "be past"}
_BE = {"be", "be past", "been"}
_OF_THE_USUAL = {"yes", "who", "whom", "when", "where", "why", "how", "how often", "how long", "what"}
_EDGE = Item("edge", "")


def settled(items: Sequence[Item], language: str) -> list[Item]:
    """The items without auxiliaries; `edge` items stand where phrases end."""
    made: list[Item] = []
    dated = any(item.kind == "date" for item in items)
    # "Are they paid?" asks what is usual; "those that are paid" are those paid.
    usual = any(item.kind == "question" and item.value in _OF_THE_USUAL for item in items)
    # Auxiliaries that no verb has taken yet, and the places of the words that stand for them until one does.
    marks: list[str] = []
    places: list[int] = []
    for at, item in enumerate(items):
        if item.kind == "aux" and item.value == "have" and not _is_perfect(items, at):
            made.append(Item("role", "with"))
        elif item.kind in ("aux", "modal"):
            marks.append(item.value)
            made.append(Item("edge", item.value))
            places.append(len(made) - 1)
        elif item.kind == "verb":
            for place in places:
                made[place] = _EDGE
            made.append(_voiced(item, marks, (dated, usual), language))
            marks, places = [], []
        else:
            if item.kind in ("relative", "break"):
                marks = []
                places = []
            if item.kind == "relative":
                marks.append("relative")
            made.append(item)
    return [_left(item) for item in made]


def _left(item: Item) -> Item:
    """An auxiliary that no verb took: "who was the manager"."""
    if item.kind != "edge" or item.value in ("", "be", "been", "do", "will", "se"):
        return item
    return Item("modal", "past" if item.value in ("be past", "did") else item.value)


def _is_perfect(items: Sequence[Item], at: int) -> bool:
    """Whether "have" belongs to a participle: right before it, or "Has turnover grown"."""
    for item in items[at + 1 :]:
        if item.kind == "verb":
            return item.tense == "p"
        if item.kind == "aux":
            return item.value == "been"
        skipped = item.kind == "not" or item.value.startswith("_")
        if not skipped and (at > 1 or item.kind in ("role", "break", "relative", "compare")):
            return False
    return False


def _voiced(verb: Item, marks: Sequence[str], told: tuple[bool, bool], language: str) -> Item:
    tense, voice = (_spanish if language == "es" else _english)(verb, set(marks), *told)
    modals = [mark for mark in marks if mark not in _PAST | _BE | {"do", "will", "se", "relative"}]
    return replace(
        verb, value=" ".join([*modals, verb.value]), tense=tense, voice="" if verb.alone else voice, person=""
    )


def _english(verb: Item, marks: set[str], dated: bool, usual: bool) -> tuple[str, str]:
    if verb.tense == "p" and marks & _BE:
        done = marks & _PAST or ("be" in marks and not usual)
        return ("p" if done else "n"), "passive"
    if marks & _PAST or verb.tense == "p":
        # "suppliers paid" may be those who paid and those who were paid.
        return "p", "active" if marks & {"relative", "have", "did"} else "unclear"
    # With a date "which expire in June" and "which will expire in June" are one question.
    return ("f" if "will" in marks and not dated else "n"), "active"


def _spanish(verb: Item, marks: set[str], dated: bool, usual: bool) -> tuple[str, str]:
    if verb.person == "done":
        if "have1" in marks:
            return "p", "we"
        if "have3" in marks:
            return "p", "passive" if "se" in marks else "active"
        # A participle alone is passive, too: "proveedores pagados".
        return ("n" if "be" in marks and usual else "p"), "passive"
    if "se" in marks and verb.person == "3":
        return ("n" if verb.tense == "f" and dated else verb.tense), "se"
    # "firmamos" is said of now and then.
    tense = ("p" if dated else "n") if verb.tense == "?" else verb.tense
    tense = "n" if tense == "f" and dated else tense
    return tense, {"1": "we", "inf": "to", "i": "i"}.get(verb.person, "active")
