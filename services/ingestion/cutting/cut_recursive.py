"""Cuts by paragraphs; those that are too long by lines, then sentences, then words, each only as far as needed."""

import asyncio
import itertools
from collections.abc import Sequence

from services.ingestion.cutting import splitting
from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.pieces import Group, Piece, fitted, joined, packed, whole
from services.ingestion.parsed import Block


async def cut_recursive(blocks: Sequence[Block], sizes: Sizes, tools: Tools) -> list[Group]:
    """Groups of whole paragraphs, or of parts of one."""
    pieces = await fitted(whole(blocks), sizes.max_tokens, tools.count, [_paragraphs, _lines, _sentences])
    return await asyncio.to_thread(_grouped, pieces, sizes)


def _paragraphs(piece: Piece) -> list[str]:
    return splitting.paragraphs(piece.text)


def _lines(piece: Piece) -> list[str]:
    return splitting.lines(piece.text)


def _sentences(piece: Piece) -> list[str]:
    return splitting.sentences(piece.text)


def _grouped(pieces: list[Piece], sizes: Sizes) -> list[Group]:
    runs = [list(run) for _, run in itertools.groupby(pieces, key=lambda piece: piece.run)]
    return [group for run in joined(runs, sizes) for group in packed(run, sizes, across=True)]
