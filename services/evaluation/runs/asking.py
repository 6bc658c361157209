"""Puts every question to every variant: so many at a time, in a fixed order, and none that is done already."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from services.evaluation.golden.item import Item
from services.evaluation.runs.folder import RunFolder
from services.evaluation.runs.record import Record
from services.evaluation.runs.variant import Variant


class Asks(Protocol):
    """Puts one question to one variant."""

    async def ask(self, item: Item, variant: Variant) -> Record:
        """The record. A failure of what is asked is a record too, never an exception."""
        ...


async def ask_all(
    items: Sequence[Item],
    variants: Sequence[Variant],
    asks: Asks,
    folder: RunFolder,
    *,
    concurrency: int = 4,
    told: Callable[[Record], None] = lambda _: None,
) -> list[Record]:
    """The records of all, in order: question by question, and of each all variants.

    So variants meet the same weather: a machine that gets busy is busy for all of them. What failed in an earlier part
    of the run is asked again. When this is cancelled nothing that was answered is lost. Raises OSError, and what `told`
    raises, which ends the run.
    """
    done = {record.key for record in folder.records() if record.answered is not None}
    wanted = [(item, variant) for item in items for variant in variants if (item.id, variant.name) not in done]
    left = iter(wanted)

    async def work() -> None:
        for item, variant in left:
            record = await asks.ask(item, variant)
            folder.append(record)
            told(record)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(max(1, min(concurrency, len(wanted)))):
                workers.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    found = {record.key: record for record in folder.records()}
    return [found[item.id, variant.name] for item in items for variant in variants]
