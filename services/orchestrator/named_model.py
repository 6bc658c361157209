"""The model of one answer: the installation's, or the one that its request names."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from services.orchestrator.model import Delta, Message, Model, Sampling, ToolSpec, Turn

_NAMED: ContextVar[str] = ContextVar("named_model", default="")


def ask(name: str) -> None:
    """From here on this task, and the tasks that it starts, ask the model `name`; empty: the installation's."""
    _NAMED.set(name)


def asked(usual: str) -> str:
    """The model that this task asks; `usual` is the installation's."""
    return _NAMED.get() or usual


@dataclass(frozen=True)
class NamedModel:
    """The Model that its task asks. `made`: the one of a served name."""

    usual: Model
    made: Callable[[str], Model]

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """See Model."""
        name = _NAMED.get()
        return (self.made(name) if name else self.usual).stream(messages, tools, sampling)
