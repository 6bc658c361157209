"""Whether a sentence of an answer says the contrary of the clauses of its source that speak of the same."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from services.orchestrator.citing.alignment import Aligned, Alignment, Place, spoken
from services.orchestrator.citing.alternatives import is_another
from services.orchestrator.citing.clauses import POINTS, Clause, Relation
from services.orchestrator.citing.lexicon import counterparts, pairs_of
from services.orchestrator.citing.ranges import is_other_end
from services.orchestrator.citing.roles import is_turned
from services.orchestrator.citing.slots import misplaced
from services.orchestrator.citing.sweeping import is_sweeping
from services.runtime.expressions.folding import fold

# Pairs of contraries: what rises or falls, and what changes or stays. See polarity.yaml.
_RISES, _CHANGES = 0, 1
# Of a clause's words the source's must have this share before the two can be compared.
# What another clause has of what this one leaves out must be so much of what this one has.
_LEAST_SHARE, _LEAST_SHARE_DENIED, _LEAST_ANCHORS, _RIVAL = 0.3, 0.2, 3, 0.5
_LEAST_ALIKE, _SHARE_OF_COUNTERPART = 2, 0.5


_UNREAL = re.compile(r"\b(?:would have|would(?:n['’]t| not) have|habrian?|hubieran?|hubiesen?)\b")


class Opposed(Enum):
    """In what a sentence says the contrary of its source. Only `DENIAL` is no more than a suspicion."""

    WORD = "a contrary"
    BOUND = "the other bound"
    ORDER = "the other order"
    STANCE = "what must be or need not be"
    CONDITION = "what it depends on"
    ROLES = "who does it to whom"
    MOVED = "that it stayed or changed"
    SLOT = "who or when"
    SWEEPING = "a condition left out"
    DENIAL = "a denial"


_SURE_OF_PLACE = frozenset((Opposed.BOUND, Opposed.ROLES))


@dataclass(frozen=True)
class Opposition:
    """One contrary, and the sentence of the source that says otherwise."""

    kind: Opposed
    sentence: str


def oppositions(alignment: Alignment) -> list[Opposition]:
    """The contraries between one sentence of an answer and the places of its source that speak of the same."""
    if _UNREAL.search(fold(alignment.text)):
        return []  # it says what was not
    whole = (
        (Opposed.SLOT, next((one.rival for one in misplaced(alignment.text, alignment.sentences)), "")),
        (Opposed.SLOT, is_other_end(alignment.text, alignment.sentences)),
        (Opposed.SLOT, is_another(alignment.text, alignment)),
        (Opposed.ROLES, is_turned(alignment.text, alignment.sentences)),
        (Opposed.SWEEPING, is_sweeping(alignment.text, alignment)),
    )
    return [Opposition(kind, sentence) for kind, sentence in whole if sentence] + [
        Opposition(kind, pair.place.text)
        for pair in alignment.pairs
        if pair.share >= _LEAST_SHARE_DENIED
        for kind in dict.fromkeys(_opposed(pair, alignment))
        if kind is Opposed.DENIAL or pair.share >= _LEAST_SHARE
        if kind in _SURE_OF_PLACE or not _is_elsewhere(kind, pair, alignment)
    ]


def _opposed(pair: Aligned, alignment: Alignment) -> Iterator[Opposed]:
    yield from _by_words(pair)
    mine, its = pair.clause, pair.place.clause
    agreed, opposed, denied = _contraries(mine, its)
    bounds, orders = _bounds(mine, alignment), _orders(pair, alignment)
    if bounds is False:
        yield Opposed.BOUND
    if False in orders and True not in orders:
        yield Opposed.ORDER
    tied = _conditional(pair, alignment)
    if tied == -1:
        yield Opposed.CONDITION
    explained = opposed or denied or _explained(agreed, mine, its)
    of_relation = mine.sign != its.sign and (bounds or True in orders)  # the denial is the relation's
    if tied is None and not (explained or of_relation):
        yield from _stances(mine, its, bounds=bounds is not None)


def _is_elsewhere(kind: Opposed, pair: Aligned, alignment: Alignment) -> bool:
    """Whether another clause, which speaks of what this one leaves out, agrees; or nothing whole stands here."""
    place = pair.place
    fragment = all(one.sign > 0 and not one.stance for one in place.sentence) and len(place.around) < _LEAST_ANCHORS
    if kind is Opposed.DENIAL and fragment and pair.share < 1:
        return True
    left = frozenset(one for one in pair.clause.anchors - place.around if one[0] != "~")
    if kind is Opposed.DENIAL and pair.clause.sign < 0 and any(_denies(one, left) for one in alignment.places):
        return True
    enough = _RIVAL * alignment.weight(pair.clause.anchors & place.around)
    if kind is Opposed.DENIAL and left and any(one.opening == "without" for one in place.sentence):
        return True
    return any(
        other.clause is not place.clause
        and alignment.weight(left & other.clause.anchors) > enough
        and kind not in _opposed(replace(pair, place=other), alignment)
        and other.clause.sign == pair.clause.sign
        and (other.clause.stance == "choice") == (pair.clause.stance == "choice")
        for other in alignment.places
    )


def _denies(place: Place, left: frozenset[str]) -> bool:
    """Whether a place speaks of what another leaves out, and denies it or has a word that does: `is refused`."""
    found = place.clause
    return bool(left & found.anchors) and (found.sign < 0 or any(side < 0 for _, side in found.contraries))


# ---- words


def _by_words(pair: Aligned) -> Iterator[Opposed]:
    mine, its = pair.clause, pair.place.clause
    _, opposed, denied = _contraries(mine, its)
    if _puts_in_order(mine) != _puts_in_order(its):
        opposed = [one for one in opposed if one not in pairs_of("lasting")]
    if opposed:
        yield Opposed.WORD
    if denied and mine.opening == its.opening:
        yield Opposed.DENIAL
    if _moves(mine, its) or _moves(its, mine):
        yield Opposed.MOVED
    if _roles_turned(pair) or _is_counterpart(pair):
        yield Opposed.ROLES


def _puts_in_order(clause: Clause) -> bool:
    return any(one.kind == "order" or one.complement_is_point for one in clause.relations)


def _contraries(mine: Clause, its: Clause) -> tuple[list[int], list[int], list[int]]:
    """Pairs on which both say the same, the contrary by other words, and the contrary by a denial of the same word."""
    first, second = dict(_sided(mine)), dict(_sided(its))
    sign = mine.sign * its.sign
    both = {pair: first[pair] * second[pair] for pair in first.keys() & second.keys()}
    agreed = [pair for pair, sides in both.items() if sides * sign > 0]
    if sign < 0 and agreed:  # `not connected` is `isolated`: the denial is accounted for
        return agreed, [], []
    loose = pairs_of("loose")
    opposed = [pair for pair, sides in both.items() if sides < 0 < sign and pair not in loose]
    return agreed, opposed, [pair for pair, sides in both.items() if sides > 0 > sign]


def _sided(clause: Clause) -> Iterator[tuple[int, int]]:
    """The pairs of which the clause has one side only."""
    count = Counter(pair for pair, _ in clause.contraries)
    return ((pair, side) for pair, side in clause.contraries if count[pair] == 1)


def _explained(agreed: Sequence[int], mine: Clause, its: Clause) -> bool:
    """Whether a denial is accounted for by words that agree, as `not connected` with `isolated`."""
    first, second = dict(mine.contraries), dict(its.contraries)
    return any(first[pair] != second[pair] for pair in agreed)


def _moves(one: Clause, other: Clause) -> bool:
    """Whether one says that something rose or fell, and the other that it stayed as it was."""
    stayed = [side * other.sign for pair, side in other.contraries if pair == _CHANGES]
    return _RISES in one.pairs and one.sign > 0 and stayed == [-1] and _RISES not in other.pairs


# ---- denials, duties and permissions


def _stances(mine: Clause, its: Clause, *, bounds: bool) -> Iterator[Opposed]:
    """`bounds`: both bound a number, so that a denial was the bound's."""
    choices = (mine.stance == "choice") + (its.stance == "choice")
    if choices == 1:
        other = its if mine.stance == "choice" else mine
        if other.stance == "must" and other.sign > 0:
            yield Opposed.STANCE
    if choices or (mine.opening == "if") != (its.opening == "if"):
        return
    sign = mine.sign * its.sign * (1 if bounds else (-1) ** (mine.bounded + its.bounded))
    by_words = _unpaired(mine, its) * _unpaired(its, mine) * mine.sign * its.sign < 0
    # `not until then` is `from then on`.
    until = any(one.kind == "order" for one in its.relations) and not any(one.kind == "order" for one in mine.relations)
    if sign < 0 and not by_words and not until:
        yield Opposed.DENIAL


def _unpaired(clause: Clause, other: Clause) -> int:
    """The clause's sign with the denials of words whose contraries the other does not have."""
    return clause.sign * (-1) ** len([pair for pair in clause.deniers if pair not in other.pairs])


# ---- bounds and order


def _bounds(mine: Clause, alignment: Alignment) -> bool | None:
    """Whether the source bounds the same number on the same side; None where it does not bound it.

    What lies beyond a bound is often told without the number, as by `above that`: then nothing is said.
    """
    if mine.sign < 0 and any(one.opening == "without" for one in alignment.said):
        return None  # `nobody under sixteen unless` is `those under sixteen only if`
    bounds = [
        (place.clause, one if one.kind == "bound" else replace(one, kind="bound", sign=-one.sign))
        for place in alignment.places
        for one in place.clause.relations
        if one.kind == "bound" or (one.of_figure and not one.complement_is_point)
    ]
    found: list[bool] = []
    for one in mine.relations:
        if one.kind != "bound" or not (one.of_figure or one.plain):
            continue
        figures = {anchor for anchor in one.complement if anchor[0] == "="} or one.complement
        alike = [
            (clause, other)
            for clause, other in bounds
            if one.of_figure == other.of_figure and other.plain | other.of_figure
        ]
        same = [
            one.sign * other.sign * mine.sign * clause.sign > 0 for clause, other in alike if other.complement & figures
        ]
        beyond = one.of_figure and any(
            other.sign == one.sign and other.compares and not other.of_figure for _, other in bounds
        )
        if same and (any(same) or not beyond):
            found += same
    return any(found) if found else None


def _orders(pair: Aligned, alignment: Alignment) -> list[bool]:
    """For each `before` or `after` of both, whether they put things in the same order."""
    mine = pair.clause
    found: list[bool] = []
    for one in (one for one in mine.relations if one.kind == "order" and one.complement):
        points = {anchor for anchor in one.complement if anchor.startswith(POINTS)}
        near = list(pair.place.sentence)
        far = [place.clause for place in alignment.places if place.clause not in near]
        for clause in (*near, *far):
            for other in clause.relations:
                if other.kind != "order" or not other.complement:
                    continue
                if points & other.complement:
                    found.append(one.sign * other.sign * mine.sign * clause.sign > 0)
                elif clause in near and (turned := _turned(one, other, alignment)):
                    sign = _unpaired(mine, clause) * _unpaired(clause, mine) * turned
                    found.append(one.sign * other.sign * sign > 0)
    return found


def _turned(one: Relation, other: Relation, alignment: Alignment) -> int:
    """1 if the same stands on the same sides of both relations, -1 if on the other sides, 0 where that is open."""
    same = alignment.weight(one.complement & other.complement)
    crossed = alignment.weight(one.complement & other.main)
    if same + crossed <= 0:
        return 0
    same += alignment.weight(one.main & other.main)
    crossed += alignment.weight(one.main & other.complement)
    return 1 if same >= crossed else -1


# ---- conditions


def _conditional(pair: Aligned, alignment: Alignment) -> int | None:
    """Where one thing depends on another, as by `not without`, whether both say so: 1, -1, or None."""
    sentence = pair.place.sentence
    own = [one.clause for one in alignment.pairs if one.place.sentence is sentence]
    its = [one for one in sentence if one.anchors & spoken(own)]
    if not any(one.opening == "without" for one in (*own, *its)) or not (_ties(own) and _ties(its)):
        return None
    if len(alignment.said) > 1 and len(own) < 2:
        return None
    return math.prod(map(_tied, own)) * math.prod(map(_tied, its))


def _ties(found: Sequence[Clause]) -> bool:
    """Whether clauses tie one thing to another: by `without`, or as needed for it."""
    return (
        (len(found) > 1 and any(one.opening in ("without", "if") for one in found))
        or any(one.stance in ("choice", "must") for one in found)
        or (len(found) > 1 and any(one.sign < 0 for one in found))
    )


def _tied(clause: Clause) -> int:
    return -1 if clause.stance == "choice" else _unpaired(clause, clause)


# ---- roles


def _roles_turned(pair: Aligned) -> bool:
    """Whether who does it and who has it done to him have changed places."""
    mine, its = list(dict.fromkeys(pair.clause.parties)), pair.place.sentence
    theirs = list(dict.fromkeys(who for one in its for who in one.parties))
    both = [who for who in mine if who in theirs][:2]
    if len(both) < 2:
        return False
    turned = theirs.index(both[0]) > theirs.index(both[1])
    passive = pair.clause.passive != any(one.passive for one in its)
    converse = pair.clause.converse * next((one.converse for one in its if one.converse), 0) < 0
    return turned ^ passive ^ converse


def _is_counterpart(pair: Aligned) -> bool:
    """Whether what the source says of one party is said of the other."""
    mine, its = frozenset(pair.clause.parties), frozenset(pair.place.clause.parties)
    given = pair.clause.converse * pair.place.clause.converse < 0
    alike = [one for one in pair.clause.anchors & pair.place.clause.anchors if one[0] != "@"]
    apart = len(mine) == len(its) == 1 and mine | its in counterparts()
    alike_enough = len(alike) >= _LEAST_ALIKE and pair.share >= _SHARE_OF_COUNTERPART
    return apart and not given and alike_enough and pair.clause.sign == pair.place.clause.sign
