"""Makes chunks of groups: checks sizes, writes the context before each, fits both into the model's window."""

from collections.abc import Sequence
from dataclasses import replace

from services.ingestion.cutting.chunking import Chunk, Count, Sizes, Tools
from services.ingestion.cutting.parents import parent_texts
from services.ingestion.cutting.pieces import Group, visible

# Tokens that the model's prefix and special tokens may take in the window.
_AROUND_TOKENS = 24
_LONGEST_CONTEXT = 200
_UNKNOWN = -1


async def assembled(groups: Sequence[Group], title: str, sizes: Sizes, tools: Tools) -> list[Chunk]:
    """Chunks in reading order."""
    checked = await _checked(groups, sizes.max_tokens, tools.count)
    parents = await parent_texts([group for group, _ in checked], sizes.parent_tokens, tools.count)
    chunks = [
        Chunk(group.text, _context(title, group), group.section, _page(group), position, tokens, parent)
        for position, ((group, tokens), parent) in enumerate(zip(checked, parents, strict=True))
    ]
    return await _within_window(chunks, tools)


def _page(group: Group) -> int:
    return next((piece.page for piece in group.pieces if piece.text.strip()), 0)


async def _checked(groups: Sequence[Group], most: int, count: Count) -> list[tuple[Group, int]]:
    """With their tokens, blank ones left out. The whole may have a few tokens more than its parts: then it is less."""
    checked = [(group, _UNKNOWN) for group in groups if visible(group.text)]
    while unknown := [at for at, (_, tokens) in enumerate(checked) if tokens == _UNKNOWN]:
        counts = await count([checked[at][0].text for at in unknown])
        for at, tokens in zip(unknown, counts, strict=True):
            checked[at] = checked[at][0], tokens
        checked = [
            pair
            for group, tokens in checked
            for pair in (_smaller(group) if tokens > most and len(group.pieces) > 1 else [(group, tokens)])
        ]
    return checked


def _smaller(group: Group) -> list[tuple[Group, int]]:
    """Without the first piece that only repeats, or a table's repeated head; else in halves."""
    pieces, middle = group.pieces, len(group.pieces) // 2
    if group.repeated:
        drop = group.repeated if pieces[0].head else 1
        smaller = [Group(group.section, pieces[drop:], group.repeated - drop)]
    else:
        smaller = [Group(group.section, pieces[:middle]), Group(group.section, pieces[middle:])]
    return [(one, _UNKNOWN) for one in smaller if visible(one.text)]


def _context(title: str, group: Group) -> str:
    """Title and the headings that the text does not begin with itself, shortened."""
    start = " ".join(" ".join(piece.text[:1000] for piece in group.pieces[:4])[:1000].split())
    parts = [part for part in (title, *group.section) if part and part not in start]
    parts = list(dict.fromkeys(parts))
    if len(parts) > 3:
        parts = [parts[0], *parts[-2:]]
    each = _LONGEST_CONTEXT // max(1, len(parts))
    return " > ".join(part if len(part) <= each else part[:each].rsplit(" ", 1)[0] + "…" for part in parts)


async def _within_window(chunks: list[Chunk], tools: Tools) -> list[Chunk]:
    """Shortens the context where context and text are more than the model can see: the text is never cut off."""
    most = tools.window_tokens - _AROUND_TOKENS
    unsure = list(range(len(chunks)))
    while unsure:
        counts = await tools.count([chunks[at].embedded for at in unsure])
        unsure = [at for at, tokens in zip(unsure, counts, strict=True) if tokens > most and chunks[at].context]
        for at in unsure:
            chunks[at] = _with_less_context(chunks[at])
    return chunks


def _with_less_context(chunk: Chunk) -> Chunk:
    context = chunk.context.rstrip("…")
    less = context[: len(context) * 2 // 3].rpartition(" ")[0].rstrip(" >")
    return replace(chunk, context=f"{less}…" if less else "")
