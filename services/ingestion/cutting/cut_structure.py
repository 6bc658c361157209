"""Cuts by structure. Never across a section that can stand alone.

A clause stays in one chunk where it fits; small sections join their neighbours under the same heading; what is too
long is cut between sentences, rows or lines, with some overlap.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.ingestion.cutting.chunking import Sizes, Tools
from services.ingestion.cutting.pieces import Group, Piece, fitted, natural, packed, tokens_of, whole
from services.ingestion.parsed import Block

# Sections directly under the document or with a heading of their own are about different things, and are cited by their
# names: only fragments are joined there.
_FRAGMENT_TOKENS = 50


@dataclass
class _Section:
    path: tuple[str, ...]
    pieces: list[Piece] = field(default_factory=list[Piece])

    @property
    def tokens(self) -> int:
        return tokens_of(self.pieces)

    @property
    def only_headings(self) -> bool:
        return all(piece.kind == "heading" for piece in self.pieces)


async def cut_structure(blocks: Sequence[Block], sizes: Sizes, tools: Tools) -> list[Group]:
    """One group a section, joined or divided to meet the sizes."""
    pieces = await fitted(whole(blocks), sizes.max_tokens, tools.count, [natural])
    return await asyncio.to_thread(_grouped, pieces, sizes)


def _grouped(pieces: list[Piece], sizes: Sizes) -> list[Group]:
    sections: list[_Section] = []
    for piece in pieces:
        if not sections or sections[-1].path != piece.section:
            sections.append(_Section(piece.section))
        sections[-1].pieces.append(piece)
    groups: list[Group] = []
    for section in _merged(sections, sizes):
        for group in packed(section.pieces, sizes):
            group.section = section.path
            groups.append(group)
    return groups


def _merged(sections: list[_Section], sizes: Sizes) -> list[_Section]:
    """Joins small sections with the next one under the same heading, and headings without text with what follows."""
    merged: list[_Section] = []
    for section in sections:
        last = merged[-1] if merged else None
        if last is not None and last.only_headings and section.path[: len(last.path)] == last.path:
            merged[-1] = _Section(section.path, last.pieces + section.pieces)
            continue
        path = _shared(last, section, sizes) if last is not None else None
        if last is not None and path is not None:
            merged[-1] = _Section(path, last.pieces + section.pieces)
        else:
            merged.append(section)
    return merged


def _shared(last: _Section, section: _Section, sizes: Sizes) -> tuple[str, ...] | None:
    """The section that both can be called, or None when they stay apart."""
    smaller = min(last.tokens, section.tokens)
    if last.tokens + section.tokens > sizes.max_tokens or smaller >= sizes.min_tokens:
        return None
    if section.only_headings:  # it belongs to what follows
        return None
    parent = section.path[:-1]
    if parent not in (last.path, last.path[:-1]):
        return None
    fragment = min(_FRAGMENT_TOKENS, sizes.min_tokens)
    if not parent and smaller >= fragment:
        return None
    if section.pieces[0].kind == "heading" and max(last.tokens, section.tokens) >= fragment:
        return None
    return parent
