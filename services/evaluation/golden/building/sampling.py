"""Draws chunks to write from, and items to look at, so that every kind has its share. The same seed draws the same."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from services.evaluation.golden.building.chunk import Chunk
from services.evaluation.golden.item import Item

_T = TypeVar("_T")


def seed_chunks(chunks: Sequence[Chunk], count: int, seed: int, least_characters: int) -> list[Chunk]:
    """At most `count` chunks, one of each stratum in turn, and of a stratum's documents in turn; no text twice."""
    long_enough = {one.text: one for one in chunks if len(one.text) >= least_characters}
    return spread(
        list(long_enough.values()),
        count,
        key=lambda one: one.stratum,
        within=lambda one: one.document,
        name=lambda one: f"{seed} {one.id}",
    )


def for_review(items: Sequence[Item], share: float, seed: int) -> list[Item]:
    """A share of the items, at least one, one of each stratum and language in turn."""
    if not items or share <= 0:
        return []
    return spread(
        items,
        max(1, round(share * len(items))),
        key=lambda one: (one.stratum.value, one.language),
        within=lambda one: one.id,
        name=lambda one: f"{seed} {one.id}",
    )


def spread(
    things: Sequence[_T],
    count: int,
    *,
    key: Callable[[_T], Hashable],
    within: Callable[[_T], str],
    name: Callable[[_T], str],
) -> list[_T]:
    """`count` things, drawn in turn from the groups of `key`, in each from those that `within` has given least of."""
    groups: dict[Hashable, list[_T]] = defaultdict(list)
    for one in sorted(things, key=lambda one: _hash(name(one))):
        groups[key(one)].append(one)
    turns = [
        _in_turn(groups[one], within) for one in sorted(groups, key=lambda one: _hash(repr(one) + name(groups[one][0])))
    ]
    drawn: list[_T] = []
    for place in range(max(map(len, turns), default=0)):
        drawn += [turn[place] for turn in turns if place < len(turn)]
    return drawn[: max(count, 0)]


def _in_turn(things: Sequence[_T], within: Callable[[_T], str]) -> list[_T]:
    """First one of each, then the second of each."""
    seen: dict[str, int] = defaultdict(int)
    ranked: list[tuple[int, int, _T]] = []
    for place, one in enumerate(things):
        ranked.append((seen[within(one)], place, one))
        seen[within(one)] += 1
    return [one for _, _, one in sorted(ranked, key=lambda rank: rank[:2])]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
