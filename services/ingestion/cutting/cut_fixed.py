"""Cuts into equal sizes with overlap, whatever the text says: between words, or within words that are too long."""

import asyncio
import math
from collections.abc import Sequence

from services.ingestion.cutting import splitting
from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.pieces import Group, Piece, common_section, fitted, tokens_of, whole
from services.ingestion.parsed import Block


async def cut_fixed(blocks: Sequence[Block], sizes: Sizes, tools: Tools) -> list[Group]:
    """Groups as large as possible that are all of about one size."""
    grain = max(1, min(32, sizes.max_tokens // 8))
    pieces = await fitted(whole(blocks), grain, tools.count, [_words])
    return await asyncio.to_thread(_grouped, pieces, sizes)


def _words(piece: Piece) -> list[str]:
    return splitting.words(piece.text)


def _grouped(pieces: list[Piece], sizes: Sizes) -> list[Group]:
    total = tokens_of(pieces)
    step = sizes.max_tokens - sizes.overlap_tokens
    count = max(1, math.ceil((total - sizes.overlap_tokens) / step))
    size = min(sizes.max_tokens, math.ceil((total + (count - 1) * sizes.overlap_tokens) / count))
    groups: list[Group] = []
    start = end = 0
    while end < len(pieces):
        before, end = end, _end(pieces, start, end, size, sizes.max_tokens)
        groups.append(Group(common_section(pieces[start:end]), pieces[start:end], before - start))
        start = _start(pieces, start, end, sizes.overlap_tokens)
    return groups


def _end(pieces: list[Piece], start: int, before: int, size: int, most: int) -> int:
    """Behind the last piece that fits. One more than last time at least."""
    filled = 0
    for at in range(start, len(pieces)):
        fits = filled < size and filled + pieces[at].tokens <= most
        if at > before and not fits:
            return at
        filled += pieces[at].tokens
    return len(pieces)


def _start(pieces: list[Piece], start: int, end: int, overlap_tokens: int) -> int:
    """Where the next group starts: as far back as the overlap allows, but always further than this one."""
    at, room = end, overlap_tokens
    while at - 1 > start and pieces[at - 1].tokens <= room:
        at -= 1
        room -= pieces[at].tokens
    return at
