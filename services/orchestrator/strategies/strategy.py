"""A way of answering."""

from collections.abc import AsyncGenerator
from typing import Protocol

from services.orchestrator.events import Event
from services.orchestrator.run import Run


class Strategy(Protocol):
    """Gathers evidence and answers from it."""

    def answer(self, run: Run) -> AsyncGenerator[Event]:
        """Yields what happens, until `run.answered` or nothing more can be done: then the agent writes what there is.

        Raises ServiceError when the model fails. Closing the generator cancels whatever runs.
        """
        ...
