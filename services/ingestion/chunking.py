"""Cuts a document into the pieces that are embedded, searched and cited. Never across a section that can stand alone.

A clause stays in one chunk where it fits; small sections join their neighbours under the same heading; what is too
long is cut between sentences, with some overlap.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from services.ingestion import splitting
from services.ingestion.parsed import Block, Kind

Count = Callable[[Sequence[str]], Awaitable[Sequence[int]]]

# Sections directly under the document or with a heading of their own are about different things, and are cited by their
# names: only fragments are joined there.
_FRAGMENT_TOKENS = 50
# Room in the model's window for prefix, special tokens and the title that is put before the text.
_CONTEXT_TOKENS = 96
_LONGEST_CONTEXT = 200


@dataclass(frozen=True)
class Sizes:
    """Sizes of chunks in tokens of the embedding model, prefix and context not counted."""

    min_tokens: int = 200
    max_tokens: int = 350
    overlap_tokens: int = 40

    def __post_init__(self) -> None:
        """Raises ValueError for sizes that can never be met."""
        if not 0 < self.min_tokens <= self.max_tokens:
            raise ValueError("the smallest chunk must not be above the largest")
        if not 0 <= self.overlap_tokens < self.max_tokens:
            raise ValueError("the overlap of chunks must be smaller than a chunk")

    def within(self, window_tokens: int) -> "Sizes":
        """The same, made smaller where the model's window is small."""
        most = max(16, min(self.max_tokens, window_tokens - _CONTEXT_TOKENS))
        return Sizes(min(self.min_tokens, most), most, min(self.overlap_tokens, most // 4))


@dataclass(frozen=True)
class Chunk:
    """A piece of a document. `text` is what is read and cited; `context` is embedded before it and not stored."""

    text: str
    context: str
    section: tuple[str, ...]
    page: int
    position: int
    token_count: int

    @property
    def embedded(self) -> str:
        """What the model sees."""
        return f"{self.context}\n{self.text}" if self.context else self.text


@dataclass(slots=True)
class _Piece:
    """A block, or a part of one that is too long. `block` tells the parts of one block; `glue` goes before it."""

    text: str
    kind: Kind
    section: tuple[str, ...]
    page: int
    block: int
    glue: str
    tokens: int = 0


@dataclass
class _Section:
    path: tuple[str, ...]
    pieces: list[_Piece] = field(default_factory=list[_Piece])

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    @property
    def only_headings(self) -> bool:
        return all(piece.kind == "heading" for piece in self.pieces)


async def cut(blocks: Sequence[Block], title: str, sizes: Sizes, count: Count) -> list[Chunk]:
    """Chunks in reading order. `count` gives the tokens of texts as the embedding model counts them."""
    pieces = await _counted(await asyncio.to_thread(_first_cut, blocks), count)
    pieces = await _fitted(pieces, sizes.max_tokens, count)
    groups = await asyncio.to_thread(_grouped, pieces, sizes)
    return [
        Chunk(text, _context(title, path, pieces), path, pieces[0].page, position, tokens)
        for position, (path, pieces, text, tokens) in enumerate(await _checked(groups, sizes.max_tokens, count))
    ]


def _first_cut(blocks: Sequence[Block]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for number, block in enumerate(blocks):
        near = block.kind == "list" and number > 0 and blocks[number - 1].kind == "list"
        glue = "\n" if near or (number > 0 and blocks[number - 1].kind == "heading") else "\n\n"
        whole = _Piece(block.text, block.kind, block.section, block.page, number, glue)
        pieces += [whole] if len(block.text) <= splitting.LONGEST_COUNTED else _parts(whole)
    return pieces


def _parts(piece: _Piece) -> list[_Piece]:
    by_line = piece.kind in ("table", "code")
    texts = splitting.lines(piece.text) if by_line else splitting.sentences(piece.text)
    return _continued(piece, texts)


def _continued(piece: _Piece, texts: list[str]) -> list[_Piece]:
    return [
        _Piece(text, piece.kind, piece.section, piece.page, piece.block, "" if index else piece.glue)
        for index, text in enumerate(texts)
    ]


async def _counted(pieces: list[_Piece], count: Count) -> list[_Piece]:
    counts = await count([piece.text for piece in pieces]) if pieces else ()
    for piece, tokens in zip(pieces, counts, strict=True):
        piece.tokens = tokens
    return pieces


async def _fitted(pieces: list[_Piece], most: int, count: Count) -> list[_Piece]:
    """Cuts whatever is longer than a chunk: into sentences or rows first, then between words."""
    while long := {index for index, piece in enumerate(pieces) if piece.tokens > most and len(piece.text) > 1}:
        cut = {index: _smaller(pieces[index]) for index in sorted(long)}
        counted = iter(await _counted([part for parts in cut.values() for part in parts], count))
        pieces = [
            part
            for index, piece in enumerate(pieces)
            for part in ([next(counted) for _ in cut[index]] if index in cut else [piece])
        ]
    return pieces


def _smaller(piece: _Piece) -> list[_Piece]:
    parts = _parts(piece)
    return parts if len(parts) > 1 else _continued(piece, splitting.halves(piece.text))


def _grouped(pieces: list[_Piece], sizes: Sizes) -> list[tuple[tuple[str, ...], list[_Piece]]]:
    sections: list[_Section] = []
    for piece in pieces:
        if not sections or sections[-1].path != piece.section:
            sections.append(_Section(piece.section))
        sections[-1].pieces.append(piece)
    return [(section.path, group) for section in _merged(sections, sizes) for group in _packed(section, sizes)]


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


def _packed(section: _Section, sizes: Sizes) -> list[list[_Piece]]:
    """Fills chunks evenly rather than to the brim, so that no crumb is left at the end."""
    even = section.tokens / max(1, math.ceil(section.tokens / sizes.max_tokens))
    groups: list[list[_Piece]] = [[]]
    filled = 0
    for index, piece in enumerate(section.pieces):
        needed = piece.tokens + _tokens_until_text(section.pieces, index)
        full = filled + piece.tokens > sizes.max_tokens or filled >= even
        if groups[-1] and (full or (piece.kind == "heading" and filled + needed > sizes.max_tokens)):
            start = _overlap(groups[-1], piece, sizes)
            groups.append(start)
            filled = sum(one.tokens for one in start)
        groups[-1].append(piece)
        filled += piece.tokens
    return groups


def _tokens_until_text(pieces: list[_Piece], index: int) -> int:
    """Tokens that must follow a heading in its chunk."""
    total = 0
    for piece in pieces[index + 1 :] if pieces[index].kind == "heading" else ():
        total += piece.tokens
        if piece.kind != "heading":
            break
    return total


def _overlap(before: list[_Piece], piece: _Piece, sizes: Sizes) -> list[_Piece]:
    """The last sentences of the chunk before, when `piece` goes on in the same block. Tables repeat their head."""
    if before[-1].block != piece.block:
        return []
    if piece.kind == "table":
        head = [one for one in before if one.block == piece.block][:2]
        small = sum(one.tokens for one in head) <= min(sizes.max_tokens // 3, sizes.max_tokens - piece.tokens)
        return head if small else []
    room = min(sizes.overlap_tokens, sizes.max_tokens - piece.tokens)
    taken: list[_Piece] = []
    for one in reversed(before):
        room -= one.tokens
        if one.block != piece.block or room < 0 or len(taken) + 1 == len(before):
            break
        taken.insert(0, one)
    return taken


async def _checked(
    groups: list[tuple[tuple[str, ...], list[_Piece]]], most: int, count: Count
) -> list[tuple[tuple[str, ...], list[_Piece], str, int]]:
    """With text and tokens. The whole may have a few tokens more than its parts: such a chunk is divided."""
    texts = [_text(pieces) for _, pieces in groups]
    counts = await count([text for text in texts if text]) if any(texts) else ()
    counted = iter(counts)
    checked: list[tuple[tuple[str, ...], list[_Piece], str, int]] = []
    for (path, pieces), text in zip(groups, texts, strict=True):
        tokens = next(counted) if text else 0
        middle = len(pieces) // 2
        if tokens > most and middle:
            checked += await _checked([(path, pieces[:middle]), (path, pieces[middle:])], most, count)
        elif text:
            checked.append((path, pieces, text, tokens))
    return checked


def _text(pieces: list[_Piece]) -> str:
    text = "".join((piece.glue if index else "") + piece.text for index, piece in enumerate(pieces))
    return text.strip("\n").rstrip()


def _context(title: str, path: tuple[str, ...], pieces: list[_Piece]) -> str:
    """Title and the headings that the text does not begin with itself, shortened."""
    start = " ".join(piece.text for piece in pieces[:4])[:1000]
    start = " ".join(start.split())
    parts = [part for part in (title, *path) if part and part not in start]
    parts = list(dict.fromkeys(parts))
    if len(parts) > 3:
        parts = [parts[0], *parts[-2:]]
    each = _LONGEST_CONTEXT // max(1, len(parts))
    return " > ".join(part if len(part) <= each else part[:each].rsplit(" ", 1)[0] + "…" for part in parts)
