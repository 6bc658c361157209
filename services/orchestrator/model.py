"""The model as the agent sees it: messages and tools in, text pieces and one whole turn out."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from services.runtime.errors import LimitExceeded

# Where no tokenizer is at hand: Spanish and English prose is about four characters a token.
CHARS_PER_TOKEN = 4
# Fewer are no room for a turn.
LEAST_TURN_TOKENS = 32


def estimate_tokens(text: str) -> int:
    """Rough token count, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it; nothing in it has been checked. `model`: which one, where that is known."""

    id: str
    name: str
    arguments_json: str
    model: str = field(default="", compare=False)


@dataclass(frozen=True)
class Usage:
    """Tokens of one or several turns. `estimated`: how many of both nobody has counted."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0

    @staticmethod
    def estimate(prompt_tokens: int, completion_tokens: int) -> "Usage":
        """Of a turn of which the model did not say what it cost, such as one that did not come to its end."""
        return Usage(prompt_tokens, completion_tokens, prompt_tokens + completion_tokens)

    def __add__(self, other: "Usage") -> "Usage":
        """Sum of both."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.estimated + other.estimated,
        )

    @property
    def total(self) -> int:
        """Prompt and completion."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Message:
    """One message of the transcript. `role`: system, user, assistant or tool; `call_id` only for tool.

    `is_summary`: it stands for earlier messages.
    """

    role: str
    text: str
    calls: Sequence[ToolCall] = ()
    call_id: str = ""
    is_summary: bool = False

    @property
    def tokens(self) -> int:
        """Rough size."""
        return estimate_tokens(self.text) + sum(estimate_tokens(call.arguments_json) + 8 for call in self.calls) + 4


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it. `parameters`: JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Sampling:
    """How to sample. `max_tokens` bounds one turn.

    `json_schema` is the form that the text must have, an object with a `title`; None leaves it free. `may_call`: tools
    may be called. Where not, the model reads of them all the same, so that the prompt begins as in the turns before.
    """

    temperature: float = 0.0
    max_tokens: int = 1024
    json_schema: Mapping[str, Any] | None = None
    may_call: bool = True


@dataclass
class Spent:
    """What the model turns that tools and checks make add to a run.

    `room`: tokens that a further one may cost, None is no bound; `held`: what those under way may come to cost.
    """

    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    held: int = 0
    room: Callable[[], int] | None = None

    @contextmanager
    def holding(self, prompt_tokens: int, sampling: Sampling) -> Generator[Sampling]:
        """Counts a turn; within, what it may cost is kept from others, and `sampling` is what there is room for.

        Raises LimitExceeded where there is none.
        """
        if self.room is not None:
            room = self.room() - prompt_tokens
            if room < LEAST_TURN_TOKENS:
                raise LimitExceeded("No tokens are left for this.", setting="run_tokens")
            sampling = replace(sampling, max_tokens=min(sampling.max_tokens, room))
        self.turns += 1
        self.held += prompt_tokens + sampling.max_tokens
        try:
            yield sampling
        finally:
            self.held -= prompt_tokens + sampling.max_tokens


@dataclass(frozen=True)
class Delta:
    """A piece of text as it is generated."""

    text: str


@dataclass(frozen=True)
class Turn:
    """One whole reply of the model. `cut`: it reached `max_tokens`.

    `malformed`: what was meant as a call and is none, as one line for the model; empty if there is no such thing.
    """

    text: str = ""
    calls: Sequence[ToolCall] = ()
    usage: Usage = Usage()
    cut: bool = False
    malformed: str = ""


class Model(Protocol):
    """A chat model with tools."""

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """Yields the text in pieces and then, exactly once and last, the whole turn.

        Raises DependencyFailed when the model does not answer, LimitExceeded when the tenant has used up its tokens.
        Closing the generator, or cancelling its task, ends the generation. The caller bounds the time.
        """
        ...


async def whole_turn(model: Model, messages: Sequence[Message], sampling: Sampling, spent: Spent) -> Turn:
    """One turn without tools, at its end; an empty one where the model just stops. Adds to `spent`, come what may.

    Raises what the model does; LimitExceeded also where `spent` has no room for it.
    """
    turn, written, read = Turn(), 0, sum(message.tokens for message in messages)
    with spent.holding(read, sampling) as fitting:
        try:
            async with aclosing(model.stream(messages, (), fitting)) as parts:
                async for part in parts:
                    if isinstance(part, Turn):
                        turn, written = part, 0
                    else:
                        written += estimate_tokens(part.text)
        finally:
            spent.usage += Usage.estimate(read, written) if written else turn.usage
    return turn


@dataclass
class ScriptedModel:
    """Replies with the given steps, in order, and keeps what it was asked. An exception among the steps is raised.

    Text comes in pieces of `piece_chars`; each turn takes `delay_seconds` first, and `piece_seconds` a piece.
    """

    steps: Sequence[Turn | Exception]
    delay_seconds: float = 0
    piece_seconds: float = 0
    piece_chars: int = 7
    requests: list[tuple[list[Message], list[str]]] = field(default_factory=list[tuple[list[Message], list[str]]])

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """Plays the next step; past the last one raises IndexError."""
        step = self.steps[len(self.requests)]
        self.requests.append((list(messages), [tool.name for tool in tools] if sampling.may_call else []))
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        if isinstance(step, Exception):
            raise step
        for start in range(0, len(step.text), self.piece_chars):
            if self.piece_seconds:
                await asyncio.sleep(self.piece_seconds)
            yield Delta(step.text[start : start + self.piece_chars])
        yield step
