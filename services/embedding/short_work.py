"""Work on texts that keeps nobody waiting."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")

# So many characters take about 0.3 ms; handing them to a thread and back takes as long, and longer on a busy machine.
_SHORT_CHARS = 500


async def done(work: Callable[[], Result], texts: Sequence[str]) -> Result:
    """What `work` on these texts gives: here when they are short, as a search is, else in a thread."""
    return work() if sum(map(len, texts)) <= _SHORT_CHARS else await asyncio.to_thread(work)
