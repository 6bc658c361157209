"""Services whose waiting is told to the stopwatch of the run that they are asked for."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from services.orchestrator.model import Delta, Message, Model, Sampling, ToolSpec, Turn
from services.orchestrator.routing.encoder import Encoded, QueryEncoder
from services.orchestrator.stopwatch import Part, waiting


@dataclass(frozen=True)
class TimedEncoder:
    """A QueryEncoder whose time is that of a tool."""

    encoder: QueryEncoder

    async def encode(self, texts: Sequence[str], seconds: float) -> Encoded:
        """See QueryEncoder."""
        with waiting(Part.TOOLS):
            return await self.encoder.encode(texts, seconds)


@dataclass(frozen=True)
class TimedModel:
    """A Model that checks answers."""

    model: Model

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """See Model."""
        async with aclosing(self.model.stream(messages, tools, sampling)) as parts:
            while True:
                with waiting(Part.CHECKING):
                    part = await anext(parts, None)
                if part is None:
                    return
                yield part
