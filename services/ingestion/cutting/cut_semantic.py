"""Cuts where the meaning turns: where the vectors of consecutive sentences part.

Each sentence is embedded with its neighbours, and the distances that are larger than most others become breaks (the
percentile method of G. Kamradt, "5 Levels of Text Splitting", 2024); sizes hold all the same.
"""

import asyncio
import math
from collections.abc import Sequence
from itertools import pairwise
from operator import mul

from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.cut_sentences import sentences_of
from services.ingestion.cutting.pieces import Group, Piece, common_section, fitted, natural, packed, text_of, tokens_of
from services.ingestion.parsed import Block

_PERCENTILE = 90
# Above this number of sentences, some are taken together: the cost of embedding them stays within that of the chunks.
_MOST_WINDOWS = 2_000

_Unit = list[Piece]


async def cut_semantic(blocks: Sequence[Block], sizes: Sizes, tools: Tools) -> list[Group]:
    """Groups between `min_tokens` and `max_tokens` where the text allows, of sentences that are about one thing."""
    pieces = await asyncio.to_thread(sentences_of, blocks)
    pieces = await fitted(pieces, sizes.max_tokens, tools.count, [natural])
    units = _units(pieces, sizes)
    if tokens_of(pieces) <= sizes.min_tokens or len(units) < 2:
        return packed(pieces, sizes)
    vectors = await tools.embed(_windows(units, sizes))
    return await asyncio.to_thread(_grouped, units, vectors, sizes)


def _units(pieces: Sequence[Piece], sizes: Sizes) -> list[_Unit]:
    """Sentences. In a long document, neighbours together up to a quarter of a chunk; a heading with what follows."""
    room = sizes.max_tokens // 4 if len(pieces) > _MOST_WINDOWS else 0
    units: list[_Unit] = []
    for piece in pieces:
        last = units[-1] if units else None
        if last is not None and (
            (last[-1].kind == "heading" and tokens_of(last) + piece.tokens <= sizes.max_tokens)
            or (piece.kind != "heading" and tokens_of(last) + piece.tokens <= room)
        ):
            last.append(piece)
        else:
            units.append([piece])
    return units


def _windows(units: Sequence[_Unit], sizes: Sizes) -> list[str]:
    """Each unit with those beside it, as far as a chunk is wide. None is blank."""
    windows: list[str] = []
    for index, unit in enumerate(units):
        wide = [piece for one in units[max(0, index - 1) : index + 2] for piece in one]
        text = text_of(wide if tokens_of(wide) <= sizes.max_tokens else unit)
        windows.append(text if text.strip() else ".")
    return windows


def _grouped(units: list[_Unit], vectors: Sequence[Sequence[float]], sizes: Sizes) -> list[Group]:
    """`distances[i]` is that between unit i and the next."""
    tokens = [tokens_of(unit) for unit in units]
    distances = [1 - sum(map(mul, vectors[at], vectors[at + 1])) for at in range(len(units) - 1)]
    limit = _percentile(distances)
    cuts = [0, *(at + 1 for at, distance in enumerate(distances) if distance > limit), len(units)]
    segments = [part for start, end in pairwise(cuts)
                for part in _divided(start, end, tokens, distances, sizes)]  # fmt: skip
    groups: list[Group] = []
    for start, end in _joined(segments, tokens, distances, sizes):
        pieces = [piece for unit in units[start:end] for piece in unit]
        if tokens_of(pieces) <= sizes.max_tokens:
            groups.append(Group(common_section(pieces), pieces))
        else:
            groups += packed(pieces, sizes)
    return groups


def _percentile(values: Sequence[float]) -> float:
    """Interpolated, so that the largest of a few values is above it."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * _PERCENTILE / 100
    low = ordered[math.floor(place)]
    return low + (ordered[math.ceil(place)] - low) * (place % 1)


def _divided(
    start: int, end: int, tokens: Sequence[int], distances: Sequence[float], sizes: Sizes
) -> list[tuple[int, int]]:
    """Segments that fit, cut at the largest distance that leaves no crumb."""
    done: list[tuple[int, int]] = []
    waiting = [(start, end)]
    while waiting:
        start, end = waiting.pop()
        total = sum(tokens[start:end])
        if total <= sizes.max_tokens or end - start < 2:
            done.append((start, end))
            continue
        least = min(sizes.min_tokens, total // 2) if total >= 2 * sizes.min_tokens else total // 4
        cut, best, filled = 0, -math.inf, 0
        for at in range(start, end - 1):
            filled += tokens[at]
            if least <= filled <= total - least and distances[at] > best:
                cut, best = at + 1, distances[at]
        cut = cut or (start + end) // 2
        waiting += [(cut, end), (start, cut)]
    return done


def _joined(
    segments: list[tuple[int, int]], tokens: Sequence[int], distances: Sequence[float], sizes: Sizes
) -> list[tuple[int, int]]:
    """Crumbs go to the neighbour that is nearer in meaning, where both fit."""

    def size(segment: tuple[int, int]) -> int:
        return sum(tokens[slice(*segment)])

    result: list[tuple[int, int]] = []
    for index, segment in enumerate(segments):
        last = result[-1] if result else None
        following = segments[index + 1] if index + 1 < len(segments) else None
        if last is not None and size(last) + size(segment) <= sizes.max_tokens:
            nearer = (
                following is not None
                and size(segment) + size(following) <= sizes.max_tokens
                and distances[segment[1] - 1] < distances[segment[0] - 1]
            )
            if size(last) < sizes.min_tokens or (size(segment) < sizes.min_tokens and not nearer):
                result[-1] = last[0], segment[1]
                continue
        result.append(segment)
    return result
