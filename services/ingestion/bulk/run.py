"""The driver of a bulk run: what is left to do, the Ray Data pipeline that does it, and the ledger of what is done."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.ingestion.bulk.cluster import Cluster
from services.ingestion.bulk.config import Settings
from services.ingestion.bulk.connections import Addresses, Connections, scratch
from services.ingestion.bulk.corpus import Outcome, Source, State, Target
from services.ingestion.bulk.ledger import Ledger
from services.ingestion.bulk.pipeline import Shape
from services.ingestion.bulk.planning import Plan, Planning
from services.ingestion.bulk.stages import addresses_of
from services.ingestion.parsing import Parser


@dataclass
class Progress:
    """How far a run is. `failures` and `warned` are kept, the rest is only counted."""

    total: int
    counts: Counter[State] = field(default_factory=Counter[State])
    chunks: int = 0
    failures: list[Outcome] = field(default_factory=list[Outcome])
    warned: list[Outcome] = field(default_factory=list[Outcome])

    @property
    def done(self) -> int:
        """Files that are dealt with."""
        return self.counts.total()

    def add(self, outcome: Outcome) -> None:
        """Counts one."""
        self.counts[outcome.state] += 1
        self.chunks += outcome.chunk_count if outcome.state == "stored" else 0
        if outcome.state == "failed":
            self.failures.append(outcome)
        if outcome.warnings:
            self.warned.append(outcome)


def index(
    sources: Sequence[Source],
    target: Target,
    settings: Settings,
    shape: Shape,
    ledger: Ledger,
    show: Callable[[Progress], None],
) -> Progress:
    """Sees all `sources` through; `show` is called after each batch. The ledger has each as soon as it is stored.

    Raises RayMissing, NotFound (the collection) and the errors of services/runtime before anything is begun.
    """
    progress = Progress(len(sources))
    with contextlib.ExitStack() as stack:
        cluster = Cluster(shape)
        encoders: Sequence[Any] = ()
        if shape.encoders:
            encoders = stack.enter_context(cluster).encoders()
        known = ledger.sha256s(sources)
        plan = asyncio.run(_planned(sources, target, settings, known, addresses_of(encoders)))
        for outcome in plan.done:
            progress.add(outcome)
        show(progress)
        if not plan.todo:
            return progress
        if not shape.encoders:
            stack.enter_context(cluster)
        batches = stack.enter_context(contextlib.closing(cluster.outcomes(plan.todo, target, encoders)))
        for outcome in itertools.chain.from_iterable(batches):
            ledger.record(outcome)
            progress.add(outcome)
            show(progress)
    return progress


async def _planned(
    sources: Sequence[Source], target: Target, settings: Settings, known: dict[str, str], addresses: Addresses | None
) -> Plan:
    connections = Connections(settings, target, addresses)
    try:
        connections.act()
        with scratch() as folder:
            parser = Parser(settings.parse_memory_bytes, settings.parse_timeout_seconds)
            pipeline = connections.pipeline(Path(folder), parser)
            return await Planning(pipeline, connections.index, connections.documents, target).plan(sources, known)
    finally:
        await connections.close()
