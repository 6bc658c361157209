"""The ways to cut a document, by name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from services.ingestion.cutting.assembly import assembled
from services.ingestion.cutting.chunking import Chunk, Sizes, Strategy, Tools
from services.ingestion.cutting.cut_code import cut_code
from services.ingestion.cutting.cut_fixed import cut_fixed
from services.ingestion.cutting.cut_recursive import cut_recursive
from services.ingestion.cutting.cut_semantic import cut_semantic
from services.ingestion.cutting.cut_sentences import cut_sentences
from services.ingestion.cutting.cut_structure import cut_structure
from services.ingestion.cutting.pieces import Group
from services.ingestion.parsed import Block

# Every group holds at most `max_tokens`, and all groups in order hold every piece of the document.
Cut = Callable[[Sequence[Block], Sizes, Tools], Awaitable[list[Group]]]

STRATEGIES: Mapping[Strategy, Cut] = {
    "structure": cut_structure,
    "fixed": cut_fixed,
    "sentences": cut_sentences,
    "recursive": cut_recursive,
    "semantic": cut_semantic,
    "code": cut_code,
}


async def cut(blocks: Sequence[Block], title: str, strategy: Strategy, sizes: Sizes, tools: Tools) -> list[Chunk]:
    """Chunks in reading order, the same for the same blocks. Context and text of each fit the model's window.

    Sizes are made smaller where the window is.
    """
    sizes = sizes.within(tools.window_tokens)
    groups = await STRATEGIES[strategy](blocks, sizes, tools)
    return await assembled(groups, title, sizes, tools)
