"""Parts items into a half to tune on and a half to report on, so that no document is behind questions of both."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from services.evaluation.golden.item import DEV, TABLE, TEST, Item


class Leak(ValueError):
    """Something is behind questions of both halves. The message names it."""


def parted(items: Sequence[Item], name: str, dev_share: float = 0.5) -> list[Item]:
    """The items, each with its half, in the order given.

    Items that share a document or a family stay together, directly or through others. Groups are ordered by a hash of
    `name` and of what they hold, each stratum in turn, so that a half has its share of every stratum.
    """
    if not 0 <= dev_share <= 1:
        raise ValueError(f"a share is within [0, 1], not {dev_share}")
    groups = grouped(items)
    dev: set[str] = set()
    for kind in sorted({_kind(one) for one in groups}):
        order = sorted((one for one in groups if _kind(one) == kind), key=lambda one: _order(name, one))
        wanted = dev_share * sum(map(len, order))
        taken = 0
        for group in order:
            # Whichever side leaves the smaller distance to the share that is wanted.
            if abs(taken + len(group) - wanted) <= abs(taken - wanted):
                dev |= {one.id for one in group}
                taken += len(group)
    return [replace(one, split=DEV if one.id in dev else TEST) for one in items]


def sides(sizes: Mapping[str, int], name: str, dev_share: float) -> dict[str, str]:
    """The half of each document, before anything is written: questions on two documents then keep to one half.

    `sizes`: how much each document weighs. Documents are ordered by a hash of `name` and their own.
    """
    wanted = dev_share * sum(sizes.values())
    taken = 0
    found: dict[str, str] = {}
    for document in sorted(sizes, key=lambda one: hashlib.sha256(f"{name}\n{one}".encode()).digest()):
        is_nearer = abs(taken + sizes[document] - wanted) <= abs(taken - wanted)
        found[document] = DEV if is_nearer else TEST
        taken += sizes[document] if is_nearer else 0
    return found


def grouped(items: Sequence[Item]) -> list[list[Item]]:
    """Items by what they share, each group and the groups themselves in the order of the items."""
    above: dict[str, str] = {}

    def top(key: str) -> str:
        while (upper := above.setdefault(key, key)) != key:
            key = upper
        return key

    for item in items:
        for tie in ties(item):
            above[top(tie)] = top(f"item {item.id}")
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(top(f"item {item.id}"), []).append(item)
    return list(groups.values())


def ties(item: Item) -> list[str]:
    """What must not be on both sides with this item. A table is no text that could be learned by heart, so no tie."""
    documents = {one for one in (*item.sources, *item.made_from) if not one.startswith(TABLE)}
    return [*(f"document {one}" for one in sorted(documents)), *([f"family {item.family}"] if item.family else [])]


def check_apart(items: Sequence[Item]) -> None:
    """Raises Leak when a document or a family is behind items of both halves."""
    side: dict[str, Item] = {}
    for item in items:
        for tie in ties(item):
            if (other := side.setdefault(tie, item)).split != item.split:
                raise Leak(f"{tie} is behind `{other.id}` ({other.split}) and `{item.id}` ({item.split})")


def _kind(group: Sequence[Item]) -> str:
    """The rarest of its strata decides: by name, where they are mixed."""
    return min(one.stratum.value for one in group)


def _order(name: str, group: Sequence[Item]) -> bytes:
    return hashlib.sha256("\n".join([name, *sorted(one.id for one in group)]).encode()).digest()
