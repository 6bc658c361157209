"""Reads a sentence as clauses: what each speaks of, and whether it affirms, denies, bounds, allows or demands it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, takewhile

from services.orchestrator.citing.figures import Figure, Kind, figures
from services.orchestrator.citing.lexicon import Term, pairs_of, terms
from services.orchestrator.citing.words import has_content, key

# Behind these another clause begins.
_CONNECTORS = frozenset(
    "but pero while whereas mientras although though aunque because porque sino so if si when cuando where donde "
    "provided siempre_que despite pese".split()
)
_CONDITIONS = frozenset("if si when cuando provided siempre_que".split())
_COORDINATORS = frozenset("and or y e o u nor ni".split())
_VERBAL = frozenset(
    "is are was were be been has have had does do did will would es son esta estan fue fueron sera seran ha han se "
    "queda quedan tiene tienen hay".split()
)
_BREAK = re.compile(r"[,;:.]\s|[()—–?!«»\n]")
# The pair of contraries of words that compare, `more than` and `less than`, without a number.
_COMPARED = -1
_LOOK_BACK = 10
# Of one sentence as much is taken apart; longer ones are no sentences.
_MOST_CHARS, _MOST_CLAUSES = 1_200, 16
_LOOK_AHEAD, _NEED_REACH, _COMPLEMENT, _LEAST_CONTENT = 4, 4, 3, 2
_CONCORD = frozenset("nada nadie ningun ninguna ninguno nunca jamas tampoco ni en_ningun_caso".split())
_RELATIONS = (("order", "before", 1), ("order", "after", -1), ("bound", "at_least", 1), ("bound", "at_most", -1))
_NOUNS = ("minim", "maxim", "limit", "cap", "tope")
_POSTPOSED = re.compile(r"(?:or|o)_")
# How dates and times of day stand among what a clause speaks of.
POINTS = ("=d", "=t")
_MODAL = ("must", "need", "may", "mayn't", "choice")
_RESUMING = frozenset(("negators", "must", "need", "may", "before", "after", "at_least", "at_most"))
_FUNCTIONAL = frozenset(("negators", "without", "harmless", "light", *_MODAL, "before", "after", "at_least", "at_most"))


@dataclass(frozen=True)
class Relation:
    """`before` a thing, or `at least` so much. `kind`: order or bound; `sign`: 1 for before and at least.

    `of_figure`: a number is bounded; `compares`: the word may compare with anything; `plain`: it is no noun such as
    `minimum`.
    """

    kind: str
    sign: int
    complement: frozenset[str]
    main: frozenset[str]
    start: int
    of_figure: bool
    compares: bool
    plain: bool

    @property
    def complement_is_point(self) -> bool:
        """Whether it is a date or a time of day."""
        return any(one.startswith(POINTS) for one in self.complement)


@dataclass(frozen=True)
class Clause:
    """Part of a sentence that affirms or denies.

    `anchors`: what it speaks of, in a form that is the same in both languages where the lists know it. `sign`: -1 if it
    denies. `stance`: `must`, `may`, `choice` or empty. `opening`: `without`, `if` or empty. `contraries`: the side of
    each pair that it has, without its denials. `deniers`: the pairs that deny in it.
    """

    anchors: frozenset[str]
    sign: int
    stance: str
    opening: str
    contraries: tuple[tuple[int, int], ...]
    deniers: tuple[int, ...]
    relations: tuple[Relation, ...]
    parties: tuple[str, ...]
    passive: bool
    converse: int
    bounded: bool

    @cached_property
    def pairs(self) -> frozenset[int]:
        """The pairs of contraries that it has words of."""
        return frozenset(pair for pair, _ in self.contraries)


@lru_cache(maxsize=4_096)
def clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of a sentence, in order."""
    text = text[:_MOST_CHARS]
    told = figures(text)
    spans = [one for one in told if one.kind in (Kind.DATE, Kind.TIME)]
    found = [one for one in terms(text) if not any(_is_inside(one, span) for span in spans)] if spans else terms(text)
    values = {one.start: value for one in told if (value := _value(one))}
    read: list[Clause] = []
    subject: list[Term] = []
    for opening, part in islice(_split(text, found), _MOST_CLAUSES):
        own = _subject(part)
        inherited = subject if not own and not opening else []
        subject = own or subject
        read.append(_read(text, opening, part, values, inherited))
    return tuple(read)


def _is_inside(term: Term, figure: Figure) -> bool:
    """Whether it is no more than part of a date: `May`."""
    return figure.start < term.start < figure.end


def _value(figure: Figure) -> str:
    """What a figure stands for; dates without their years, which are often left out."""
    match figure.kind:
        case Kind.NUMBER:
            return f"={figure.value.normalize()}"
        case Kind.TIME:
            return f"=t{figure.value.normalize()}"
        case Kind.DATE:
            return f"=d{figure.day.month}-{figure.day.day}" if figure.day.day else ""
        case _:
            return ""


def _subject(part: Sequence[Term]) -> list[Term]:
    """The terms before the verb, as far as that is known."""
    for at, one in enumerate(part):
        if _is_verbal(one):
            return [term for term in part[:at] if _is_content(term)]
    return [term for term in part if _is_content(term)][:2]


def _split(text: str, found: Sequence[Term]) -> Iterator[tuple[str, list[Term]]]:
    """Terms of each clause, with what opens it."""
    parts: list[tuple[str, list[Term]]] = [("", [])]
    for at, term in enumerate(found):
        opening = _opening(text, found, at, parts[-1])
        if opening is not None and (parts[-1][1] or opening):
            parts.append((opening, []))
        parts[-1][1].append(term)
    merged: list[tuple[str, list[Term]]] = []
    carried: list[Term] = []
    for opening, part in parts:
        if not part:
            continue
        whole = _denies(part) or any(one.text in _VERBAL for one in part)
        small = not (opening or whole) and _content_count(part) < _LEAST_CONTENT
        if small and merged and not carried:
            merged[-1][1].extend(part)
        elif small:
            carried += part
        else:
            if opening and carried:
                merged.append(("", carried))
                carried = []
            merged.append((opening, [*carried, *part]))
            carried = []
    if carried:
        merged.append(("", carried))
    yield from merged


def _opening(text: str, found: Sequence[Term], at: int, current: tuple[str, list[Term]]) -> str | None:
    """How a clause opens here; None where none does. `current`: the clause so far, and how it opened."""
    opened, part = current
    lacking = bool(part) and "lacking" in part[0].labels and _content_count(part[:_LOOK_AHEAD]) > 0
    term = found[at]
    if "harmless" in term.labels:
        return None
    if opened == "without" and lacking and (term.text in _VERBAL or term.labels & _RESUMING):
        return ""
    if "without" in term.labels:
        return "without"
    if term.text in _CONDITIONS:
        return "if"
    if at and "without" in found[at - 1].labels:  # `except where`
        return None
    if term.text in _CONNECTORS:
        return ""
    if at and (_BREAK.search(text[found[at - 1].end : term.start]) or _goes_on(found, at)):
        return ""
    return None


def _goes_on(found: Sequence[Term], at: int) -> bool:
    """Whether another clause follows `and`: with a verb, somebody else, or the contrary of what stands before."""
    if found[at].text not in _COORDINATORS:
        return False
    before, ahead = found[max(0, at - _LOOK_BACK) : at], found[at : at + _LOOK_AHEAD]
    if any(map(_is_verbal, ahead)):
        return True
    earlier = {pair for one in before for pair in one.contraries}
    if any((pair, -side) in earlier for one in ahead for pair, side in one.contraries):
        return True
    return any(one.party for one in ahead[:3]) and any(one.party for one in before)


def _content_count(part: Sequence[Term]) -> int:
    return sum(_is_content(one) for one in part)


def _is_content(term: Term) -> bool:
    return bool(term.sense or term.party or term.contraries) or (
        not term.labels & _FUNCTIONAL and has_content(term.text)
    )


def _denies(part: Sequence[Term]) -> bool:
    return any(one.labels & {"negators", "deniers", "mayn't", "choice", "must", "need"} for one in part)


def _read(text: str, opening: str, part: Sequence[Term], values: dict[int, str], inherited: Sequence[Term]) -> Clause:
    part = [one for one in part if "harmless" not in one.labels]
    anchors = [(one, anchor) for one in part if (anchor := _anchor(one, values))]
    relations = list(_relations(part, anchors))
    negations, bounded = _negations(part), False
    bound = next((one for one in relations if one.kind == "bound" and one.of_figure), None)
    if negations and bound and part[negations[0]].start < bound.start and _stance(part, negations)[0] != "choice":
        # `not more than` is `at most`
        relations[relations.index(bound)] = replace(bound, sign=-bound.sign)
        negations, bounded = negations[1:], True
    stance, sign = _stance(part, negations)
    sign *= -1 if opening == "without" else 1
    sign *= (-1) ** sum("deniers" in one.labels for one in part)
    compared = [(_COMPARED, one.sign) for one in relations if one.compares and not one.of_figure]
    contraries = tuple(dict.fromkeys([*(p for one in part for p in one.contraries if not _relates(one)), *compared]))
    deniers = tuple(pair for pair, side in contraries if side < 0 and pair in pairs_of("denying"))
    by = any(one.text in ("by", "por") for one in part)
    return Clause(
        frozenset([*(anchor for _, anchor in anchors), *filter(None, (_anchor(one, values) for one in inherited))]),
        sign,
        stance,
        opening,
        contraries,
        deniers,
        tuple(relations),
        tuple(one.party for one in part if one.party),
        by and any(one.text in _VERBAL for one in part),
        next((one.converse for one in part if one.converse and not one.party), 0),
        bounded,
    )


def _relates(term: Term) -> bool:
    return bool(term.labels & {"before", "after", "at_least", "at_most"})


def _negations(part: Sequence[Term]) -> list[int]:
    """Where the clause is negated; `no … nada` is one negation."""
    places: list[int] = []
    for at, one in enumerate(part):
        if "negators" in one.labels and not (places and one.text in _CONCORD):
            places.append(at)
    return places


def _stance(part: Sequence[Term], negations: Sequence[int]) -> tuple[str, int]:
    """Stance and sign: what need not be, may be or not; what must not be, is denied."""
    sign = (-1) ** len(negations)
    for at, one in enumerate(part):
        if "choice" in one.labels:
            return ("must", 1) if len(negations) % 2 else ("choice", 1)
        if "need" in one.labels and any(0 <= at - place <= _NEED_REACH or place - at == 1 for place in negations):
            return "choice", -sign
    if any("mayn't" in one.labels for one in part):
        return "may", -sign
    if any(one.labels & {"must", "need"} for one in part):
        return "must", sign
    return ("may" if any("may" in one.labels for one in part) else ""), sign


def _anchor(term: Term, values: dict[int, str]) -> str:
    """What the term speaks of; empty for words that only relate."""
    if value := values.get(term.start):
        return value
    if term.party:
        return f"@{term.party}"
    if term.sense:
        return term.sense
    if term.labels & _FUNCTIONAL or not has_content(term.text):
        return ""
    if term.contraries:
        return f"~{term.contraries[0][0]}"
    return key(term.text)


def _is_verbal(term: Term) -> bool:
    return term.text in _VERBAL or bool(term.labels & {"negators", *_MODAL})


def _relations(part: Sequence[Term], anchors: Sequence[tuple[Term, str]]) -> Iterator[Relation]:
    for term in part:
        for kind, label, sign in _RELATIONS:
            if label not in term.labels:
                continue
            following = [one for one in part if one.start > term.start]
            noun = term.text.startswith(_NOUNS)
            opens = kind == "order" and term is part[0] and any(map(_is_verbal, following))
            if opens or (kind == "bound" and not noun):  # as far as the next verb
                following = list(takewhile(lambda one: not _is_verbal(one), following))
            behind = [anchor for one, anchor in anchors if one in following]
            before = [anchor for one, anchor in anchors if one.start < term.start]
            figures_ = [one for one in behind if one.startswith("=")] or [one for one in before if one.startswith("=")]
            if kind == "bound" and (not behind or _POSTPOSED.match(term.text)):
                complement = figures_[:1] or before[-_COMPLEMENT:]
            elif kind == "bound":
                complement = figures_[:1] or behind[:_COMPLEMENT]
            else:
                complement = behind[:_COMPLEMENT] if term is part[0] and not opens else behind
            yield Relation(
                kind,
                sign,
                frozenset(complement),
                frozenset(anchor for _, anchor in anchors) - frozenset(complement),
                term.start,
                any(one.startswith("=") for one in complement),
                "comparing" in term.labels,
                not noun,
            )
