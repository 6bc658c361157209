"""The larger passages around chunks: small chunks are found better, larger passages are read better.

A parent is a run of consecutive chunks. A section that fits is never divided between two parents, small neighbouring
sections share one, and a section that is too long is divided evenly, by its own sections first.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from services.ingestion.cutting.chunking import Count
from services.ingestion.cutting.pieces import Group, Piece, text_of, tokens_of


@dataclass(slots=True)
class _Run:
    """Chunks `start` up to `end`. `whole`: not a part of a section that had to be divided."""

    start: int
    end: int
    whole: bool = True


async def parent_texts(groups: Sequence[Group], parent_tokens: int, count: Count) -> list[str]:
    """The parent's text for each group, of at most `parent_tokens`; empty where it would be the group's own text."""
    texts = [""] * len(groups)
    waiting = _runs(groups, 0, len(groups), 0, parent_tokens) if parent_tokens else []
    while waiting := [run for run in waiting if run.end - run.start > 1]:
        parents = [text_of(_pieces(groups[run.start : run.end])) for run in waiting]
        too_long: list[_Run] = []
        for run, text, tokens in zip(waiting, parents, await count(parents), strict=True):
            if tokens > parent_tokens:
                middle = (run.start + run.end) // 2
                too_long += [_Run(run.start, middle), _Run(middle, run.end)]
            else:
                texts[run.start : run.end] = [text] * (run.end - run.start)
        waiting = too_long
    return texts


def _pieces(groups: Sequence[Group]) -> list[Piece]:
    """Of consecutive groups, what overlaps once."""
    return [piece for at, group in enumerate(groups) for piece in group.pieces[group.repeated if at else 0 :]]


def _tokens(groups: Sequence[Group], start: int, end: int) -> int:
    return tokens_of(_pieces(groups[start:end]))


def _runs(groups: Sequence[Group], start: int, end: int, depth: int, most: int) -> list[_Run]:
    if end - start < 2 or _tokens(groups, start, end) <= most:
        return [_Run(start, end)]
    if all(len(group.section) <= depth for group in groups[start:end]):
        return _even(groups, start, end, most)
    runs: list[_Run] = []
    for _, same in groupby(range(start, end), key=lambda at: groups[at].section[: depth + 1]):
        places = list(same)
        parts = _runs(groups, places[0], places[-1] + 1, depth + 1, most)
        for part in parts:
            part.whole = part.whole and len(parts) == 1
        runs += parts
    return _together(groups, runs, most)


def _together(groups: Sequence[Group], runs: Sequence[_Run], most: int) -> list[_Run]:
    """Neighbours that are whole sections share a parent where they fit."""
    result: list[_Run] = []
    for run in runs:
        last = result[-1] if result else None
        if last is not None and last.whole and run.whole and _tokens(groups, last.start, run.end) <= most:
            last.end = run.end
        else:
            result.append(run)
    return result


def _even(groups: Sequence[Group], start: int, end: int, most: int) -> list[_Run]:
    """As few runs as fit, of about one size. A chunk goes where the middle of it is."""
    own = [tokens_of(group.pieces[group.repeated :]) for group in groups[start:end]]
    total = max(1, sum(own))
    middles = [before + tokens / 2 for before, tokens in zip(accumulate(own, initial=0), own, strict=False)]
    count = math.ceil(total / most)
    while count < end - start:
        places = [min(count - 1, int(middle * count / total)) for middle in middles]
        runs = [
            _Run(start + bisect_left(places, place), start + bisect_right(places, place), whole=False)
            for place in sorted(set(places))
        ]
        if all(run.end - run.start == 1 or _tokens(groups, run.start, run.end) <= most for run in runs):
            return runs
        count += 1 + count // 20
    return [_Run(at, at + 1, whole=False) for at in range(start, end)]
