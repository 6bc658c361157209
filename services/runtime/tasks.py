"""Tasks that run beside others, and their end."""

import asyncio
import contextlib
from typing import Any


async def end(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancels tasks and waits until they have ended; None is nothing to end. Raises what one of them failed with."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    for task in running:
        with contextlib.suppress(asyncio.CancelledError):
            await task
