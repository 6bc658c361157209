"""Blocks of a document in pieces that fit into a chunk, and groups of them that become one. Nothing is lost."""

import asyncio
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from services.ingestion.cutting import splitting
from services.ingestion.cutting.chunking import Count, Sizes
from services.ingestion.parsed import Block, Kind

_LONGEST_COUNTED = 100_000
_UNKNOWN = -1
_RULE = re.compile(r"\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$")


@dataclass(slots=True)
class Piece:
    """A block, or a part of one. `block` is the same for all parts of one block; `glue` goes before it.

    `run` tells what was cut off the same larger part; `head` marks the first rows of a table.
    """

    text: str
    kind: Kind
    section: tuple[str, ...]
    page: int
    block: int
    glue: str
    tokens: int = _UNKNOWN
    run: int = 0
    head: bool = False

    @property
    def leads(self) -> bool:
        """Whether it says nothing without what follows."""
        return self.head or self.kind == "heading"


@dataclass(slots=True)
class Group:
    """What becomes one chunk. The first `repeated` pieces are in the chunk before, too."""

    section: tuple[str, ...]
    pieces: list[Piece]
    repeated: int = 0

    @property
    def text(self) -> str:
        """As it is read."""
        return text_of(self.pieces)


Split = Callable[[Piece], list[str]]


def visible(text: str) -> bool:
    """Whether anything of it can be seen: white space, control and format characters cannot."""
    return any(not character.isspace() and unicodedata.category(character) not in ("Cc", "Cf") for character in text)


def text_of(pieces: Sequence[Piece]) -> str:
    """Consecutive pieces put together again."""
    text = "".join((piece.glue if index else "") + piece.text for index, piece in enumerate(pieces))
    return text.strip("\n").rstrip()


def tokens_of(pieces: Sequence[Piece]) -> int:
    """Tokens of consecutive pieces, as far as the parts tell: the whole may have a few more or less."""
    return sum(piece.tokens for piece in pieces)


def common_section(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """The innermost section that all pieces are in."""
    first = min((piece.section for piece in pieces), default=())
    last = max((piece.section for piece in pieces), default=())
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return tuple(one for one, _ in same)


def natural(piece: Piece) -> list[str]:
    """Rows of tables, lines of code, sentences of everything else."""
    return splitting.lines(piece.text) if piece.kind in ("table", "code") else splitting.sentences(piece.text)


def whole(blocks: Sequence[Block]) -> list[Piece]:
    """One piece a block; blank ones are left out."""
    pieces: list[Piece] = []
    blocks = [block for block in blocks if visible(block.text)]
    for number, block in enumerate(blocks):
        near = block.kind == "list" and number > 0 and blocks[number - 1].kind == "list"
        glue = "\n" if near or (number > 0 and blocks[number - 1].kind == "heading") else "\n\n"
        pieces.append(Piece(block.text, block.kind, block.section, block.page, number, glue))
    return pieces


def parts(piece: Piece, texts: list[str], run: int) -> list[Piece]:
    """The piece as several."""
    heads = 2 if piece.kind == "table" and len(texts) > 1 and _RULE.match(texts[1].strip()) else 0
    return [
        replace(
            piece,
            text=text,
            glue="" if index else piece.glue,
            tokens=_UNKNOWN,
            run=run,
            head=piece.head or index < heads,
        )
        for index, text in enumerate(texts)
    ]


async def counted(pieces: list[Piece], count: Count) -> list[Piece]:
    """The same pieces with their tokens. White space at the end is not counted: what follows begins a word anyway."""
    texts = {piece.text.rstrip() or piece.text for piece in pieces}
    ordered = sorted(texts)
    tokens = dict(zip(ordered, await count(ordered), strict=True)) if ordered else {}
    for piece in pieces:
        piece.tokens = tokens[piece.text.rstrip() or piece.text]
    return pieces


async def fitted(pieces: list[Piece], most: int, count: Count, splits: Sequence[Split]) -> list[Piece]:
    """Pieces of at most `most` tokens: what is longer is cut by the first of `splits` that can, then between words."""
    longest = min(_LONGEST_COUNTED, max(splitting.LONGEST_COUNTED, 8 * most))
    runs = itertools.count(max((piece.run for piece in pieces), default=0) + 1)

    def too_long(piece: Piece) -> bool:
        return len(piece.text) > 1 and (piece.tokens > most or len(piece.text) > longest)

    def cut() -> list[Piece]:
        return [part for piece in pieces for part in (_smaller(piece, splits, runs) if too_long(piece) else [piece])]

    while True:
        await counted([piece for piece in pieces if piece.tokens == _UNKNOWN and len(piece.text) <= longest], count)
        if not any(map(too_long, pieces)):
            return pieces
        pieces = await asyncio.to_thread(cut)


def _smaller(piece: Piece, splits: Sequence[Split], runs: "itertools.count[int]") -> list[Piece]:
    for split in splits:
        texts = split(piece)
        if len(texts) > 1:
            return parts(piece, texts, next(runs))
    return parts(piece, splitting.halves(piece.text), piece.run)


def packed(pieces: Sequence[Piece], sizes: Sizes, *, across: bool = False) -> list[Group]:
    """Fills groups evenly rather than to the brim, so that no crumb is left at the end. No heading ends one.

    The overlap is whole pieces; with `across` also those of another block than the one that goes on.
    """
    even = tokens_of(pieces) / max(1, math.ceil(tokens_of(pieces) / sizes.max_tokens))
    groups: list[Group] = []
    current: list[Piece] = []
    repeated = filled = 0
    for index, piece in enumerate(pieces):
        led = bool(current) and current[-1].leads
        needed = piece.tokens if led else _tokens_to_follow(pieces, index)
        if current and (filled + needed > sizes.max_tokens or (filled >= even and not led)):
            groups.append(Group((), current, repeated))
            current = overlap(current, piece, sizes, across=across)
            repeated, filled = len(current), tokens_of(current)
        current.append(piece)
        filled += piece.tokens
    if current:
        groups.append(Group((), current, repeated))
    for group in groups:
        group.section = common_section(group.pieces)
    return groups


def _tokens_to_follow(pieces: Sequence[Piece], index: int) -> int:
    """Tokens of a piece, and of those that must be in the same chunk: the first text below a heading."""
    total = 0
    for at in range(index, len(pieces)):  # no slice: that would walk over all that comes before
        total += pieces[at].tokens
        if not pieces[at].leads:
            break
    return total


def overlap(before: list[Piece], piece: Piece, sizes: Sizes, *, across: bool) -> list[Piece]:
    """The last pieces of the group before, when `piece` goes on in the same block. Tables repeat their head."""
    same = before[-1].block == piece.block
    if piece.kind == "table":
        head = [one for one in before if one.head and one.block == piece.block] if same else []
        small = tokens_of(head) <= min(sizes.max_tokens // 3, sizes.max_tokens - piece.tokens)
        # Half a head (`glue` is before the first row alone), or nothing but the head, helps nobody.
        return head if head and head[0].glue and small and len(head) < len(before) else []
    room = min(sizes.overlap_tokens, sizes.max_tokens - piece.tokens)
    taken: list[Piece] = []
    for one in reversed(before):
        room -= one.tokens
        other = one.block != piece.block and (not across or one.kind in ("table", "heading"))
        if other or room < 0 or len(taken) + 1 == len(before):
            break
        taken.insert(0, one)
    return taken


def joined(runs: Sequence[Sequence[Piece]], sizes: Sizes) -> list[list[Piece]]:
    """Runs below `min_tokens` joined with the one before where both fit; headings go to the run that follows them."""
    result: list[list[Piece]] = []
    headings: list[Piece] = []
    for run in runs:
        pieces = [*headings, *run]
        end = len(pieces)
        while end and pieces[end - 1].kind == "heading":
            end -= 1
        pieces, headings = pieces[:end], pieces[end:]
        before = result[-1] if result else None
        if before is not None and _fit(before, pieces, sizes):
            before.extend(pieces)
        elif pieces:
            result.append(pieces)
    return [*result, headings] if headings else result


def _fit(before: Sequence[Piece], after: Sequence[Piece], sizes: Sizes) -> bool:
    tokens = tokens_of(before), tokens_of(after)
    return min(tokens) < sizes.min_tokens and sum(tokens) <= sizes.max_tokens
