"""A connection to a Ray cluster. Ray is loaded here, when a run begins, and nowhere else."""

import contextlib
import logging
import os
import re
import secrets
from collections.abc import Generator, Sequence
from typing import Any, Self

from services.ingestion.bulk import pipeline
from services.ingestion.bulk.corpus import Outcome, Source, Target
from services.ingestion.bulk.optional import module
from services.ingestion.bulk.pipeline import RemotePipeline, Shape
from services.ingestion.bulk.stages import HeldEncoder

_LEAST_STORE_BYTES = 128 * 2**20
_STARTS = 3


class Broken(Exception):
    """The cluster gave up. The message is for a person."""


class Cluster:
    """A running one, or one on this machine for as long as this is entered."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._held: list[Any] = []

    def __enter__(self) -> Self:
        """Raises RayMissing, Broken, and ConnectionError when there is no such cluster."""
        if not self._shape.address:
            # Nothing is told to Ray's makers, and who reaches the cluster's ports needs a token.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self._ray = module("ray")
        # What the pipeline needs, too: better now than in the middle.
        module("ray.data")
        module("pyarrow")
        quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
        if self._shape.address:
            self._ray.init(address=self._shape.address, **quiet)
        else:
            self._start(quiet)
        return self

    def _start(self, quiet: dict[str, Any]) -> None:
        """Again when it took too long: Ray gives its processes 30 seconds, which a busy machine may not."""
        for left in reversed(range(_STARTS)):
            try:
                self._ray.init(
                    address="local",
                    num_cpus=self._shape.cpus or None,
                    include_dashboard=False,
                    # What waits, twice over: Ray counts what is being made, too.
                    object_store_memory=max(2 * self._shape.waiting_bytes, _LEAST_STORE_BYTES),
                    **quiet,
                )
                return
            except Exception as error:  # Ray has no class of its own for it
                self._ray.shutdown()
                if not left:
                    raise Broken(f"Ray did not start: {error}") from error

    def __exit__(self, *raised: object) -> None:
        for actor in self._held:
            self._ray.kill(actor)
        self._ray.shutdown()

    def encoders(self) -> list[Any]:
        """Starts the run's own encoders; Ray actors, which may still be loading their model."""
        shape = self._shape
        remote = self._ray.remote(
            num_cpus=shape.encoder_cpus, num_gpus=shape.encoder_gpus, max_restarts=-1, max_task_retries=-1
        )(HeldEncoder)
        made = [remote.remote() for _ in range(shape.encoders)]
        self._held += made
        return made

    def outcomes(self, sources: Sequence[Source], target: Target, encoders: Sequence[Any]) -> Generator[list[Outcome]]:
        """Of all `sources`, as they come, in no order. Raises TooSmall and Broken."""
        arguments = (self._shape, sources, target, encoders)
        try:
            if not self._shape.address.startswith("ray://"):
                with contextlib.closing(pipeline.outcomes(*arguments)) as batches:
                    yield from batches
                return
            actor = self._ray.remote(num_cpus=0)(RemotePipeline).remote(*arguments)
            self._held.append(actor)
            while (batch := self._ray.get(actor.take.remote())) is not None:
                yield batch
        except self._ray.exceptions.RayError as error:
            if isinstance(error, pipeline.TooSmall):  # it comes as both
                raise
            raise Broken(_said(error)) from error


def _said(error: Exception) -> str:
    """What was raised in a worker stands at the end, below all that led to it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = re.sub(r"^[\w.]+: ", "", lines[-1]) if lines else type(error).__name__
    return f"Ray gave up: {last} What is stored stays; run it again."
