"""Cuts between sentences (rows of tables, lines of code), across paragraphs, with whole sentences as overlap."""

import asyncio
import itertools
from collections.abc import Sequence

from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.pieces import Group, Piece, fitted, joined, natural, packed, parts, whole
from services.ingestion.parsed import Block


async def cut_sentences(blocks: Sequence[Block], sizes: Sizes, tools: Tools) -> list[Group]:
    """Groups of whole sentences. A section of `min_tokens` or more shares none with the next."""
    pieces = await asyncio.to_thread(sentences_of, blocks)
    pieces = await fitted(pieces, sizes.max_tokens, tools.count, [natural])
    return await asyncio.to_thread(_grouped, pieces, sizes)


def sentences_of(blocks: Sequence[Block]) -> list[Piece]:
    """One piece a sentence, row or line; headings whole."""
    return [
        part
        for piece in whole(blocks)
        for part in ([piece] if piece.kind == "heading" else parts(piece, natural(piece) or [piece.text], 0))
    ]


def _grouped(pieces: list[Piece], sizes: Sizes) -> list[Group]:
    sections = [list(run) for _, run in itertools.groupby(pieces, key=lambda piece: piece.section)]
    return [group for run in joined(sections, sizes) for group in packed(run, sizes, across=True)]
