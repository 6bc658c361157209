"""The Ray Data pipeline of a bulk run: prepare on many processors, embed and store beside it.

What waits between the stages is bounded by bytes, in Ray's object store; what is in a stage by the number of calls
that a worker gets ahead. Vectors never wait there: the stage that has them made stores them, too.
"""

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.ingestion.bulk.corpus import Outcome, Source, Target
from services.ingestion.bulk.optional import module
from services.ingestion.bulk.stages import Prepare, Store, outcomes_of, rows_of
from services.ingestion.worker import Retry

_MOST_FILES_A_BLOCK = 16
_BATCH = 4
# Storing waits for others most of the time.
_STORE_CPUS = 0.25
_LEAST_CPUS = 0.1
# A block of prepared documents is passed on when it is so large.
_BLOCK_BYTES = 8 * 2**20


class TooSmall(Exception):
    """The cluster has no room for the run. The message says what is missing."""


@dataclass(frozen=True)
class Shape:
    """How much of a cluster a run takes. 0 workers: as many as there are processors.

    `address`: of a running cluster, such as `auto` or `ray://head:10001`; empty: one on this machine, for this run, of
    `cpus` processors (0: all). `waiting_bytes`: most that waits between the stages. `concurrency`: documents that one
    worker has under way at a time.
    """

    address: str = ""
    cpus: int = 0
    prepare_workers: int = 0
    store_workers: int = 0
    encoders: int = 0
    encoder_cpus: float = 1
    encoder_gpus: float = 0
    waiting_bytes: int = 256 * 2**20
    concurrency: int = 4
    retry: Retry = field(default_factory=Retry)


def outcomes(
    shape: Shape, sources: Sequence[Source], target: Target, encoders: Sequence[Any]
) -> Generator[list[Outcome]]:
    """Of all `sources`, as they come, in no order. Call it in a process of the cluster. Raises TooSmall."""
    data = module("ray.data")
    _configure(data, shape)
    cpus = float(module("ray").cluster_resources().get("CPU", 0))
    prepare_workers, prepare_cpus, store_workers = workers_of(shape, cpus)
    arguments = (target, list(encoders), shape.concurrency, shape.retry)
    options = {"batch_size": _BATCH, "batch_format": "pyarrow", "fn_constructor_args": arguments}

    def pool(size: int) -> Any:
        # One call under way, and one that waits for it.
        return data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=2)

    dataset = data.from_arrow(_blocks(sources, prepare_workers))
    prepared = dataset.map_batches(Prepare, compute=pool(prepare_workers), num_cpus=prepare_cpus, **options)
    stored = prepared.map_batches(Store, compute=pool(store_workers), num_cpus=_STORE_CPUS, **options)
    for table in stored.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        yield outcomes_of(table)


def workers_of(shape: Shape, cpus: float) -> tuple[int, float, int]:
    """Workers that prepare, the processors of each, and workers that store. Raises TooSmall."""
    store = shape.store_workers or max(1, int(cpus // 8))
    free = cpus - shape.encoders * shape.encoder_cpus - store * _STORE_CPUS
    prepare = shape.prepare_workers or max(1, int(free))
    share = min(1.0, free / prepare)
    if share < _LEAST_CPUS:
        raise TooSmall(f"The cluster has {cpus:g} processors, which is too few for these workers and encoders.")
    return prepare, share, store


class RemotePipeline:
    """The pipeline in a Ray actor, for a run that is itself not in the cluster: Ray Data does not run from there."""

    def __init__(self, shape: Shape, sources: Sequence[Source], target: Target, encoders: Sequence[Any]) -> None:
        self._batches = outcomes(shape, sources, target, encoders)

    def take(self) -> list[Outcome] | None:
        """The next outcomes, or None when there are no more."""
        return next(self._batches, None)


def _configure(data: Any, shape: Shape) -> None:
    # It tells of each of its steps, and at length of failures, which come as exceptions as well.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = _BLOCK_BYTES
    limits = context.execution_options.resource_limits
    context.execution_options.resource_limits = limits.copy(object_store_memory=shape.waiting_bytes)
    # A stage that cannot start must say so at once.
    context.actor_init_retry_on_errors = False


def _blocks(sources: Sequence[Source], workers: int) -> list[Any]:
    """Small enough that all workers have something to do until the end."""
    size = max(1, min(_MOST_FILES_A_BLOCK, len(sources) // (4 * workers)))
    return [rows_of(sources[start : start + size]) for start in range(0, len(sources), size)]
