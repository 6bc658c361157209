"""Cuts source code by definitions, as the parser found them. Long ones between empty lines, else between lines."""

import asyncio
import itertools
from collections.abc import Sequence

from services.ingestion.cutting import splitting
from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.pieces import Group, Piece, fitted, joined, natural, packed, whole
from services.ingestion.parsed import Block


async def cut_code(blocks: Sequence[Block], sizes: Sizes, tools: Tools) -> list[Group]:
    """One group a definition; small neighbours share one."""
    pieces = await fitted(whole(blocks), sizes.max_tokens, tools.count, [_paragraphs, natural])
    return await asyncio.to_thread(_grouped, pieces, sizes)


def _paragraphs(piece: Piece) -> list[str]:
    return splitting.paragraphs(piece.text) if piece.kind == "code" else [piece.text]


def _grouped(pieces: list[Piece], sizes: Sizes) -> list[Group]:
    definitions = [list(run) for _, run in itertools.groupby(pieces, key=lambda piece: (piece.section, piece.block))]
    return [group for run in joined(definitions, sizes) for group in packed(run, sizes)]
