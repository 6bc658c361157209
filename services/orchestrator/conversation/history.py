"""What of a conversation a run begins with: the newest turns word by word, older ones summed up or left out."""

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.orchestrator import prompts
from services.orchestrator.conversation.window import cut, newest, windowed
from services.orchestrator.model import CHARS_PER_TOKEN, Message, Model, Sampling, Spent, whole_turn
from services.orchestrator.query_writer import json_in
from services.orchestrator.results import Degraded
from services.runtime.errors import ServiceError

# Part of the budget that a summary may take.
_SUMMARY_SHARE = 0.25
_WORDS_PER_TOKEN = 0.5
_SCHEMA = {
    "title": "conversation_summary",
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Fitted:
    """A conversation within its budget. System messages are in it as they were."""

    messages: Sequence[Message]
    degraded: Sequence[Degraded] = ()


class Conversation(Protocol):
    """Fits conversations."""

    async def fit(self, history: Sequence[Message], tokens: int, spent: Spent, seconds: float) -> Fitted:
        """What is kept within `tokens`. Never raises; takes at most `seconds`, and adds to `spent` what it cost."""
        ...


class Windowed:
    """Leaves out what is too old."""

    async def fit(self, history: Sequence[Message], tokens: int, spent: Spent, seconds: float) -> Fitted:
        """See Conversation."""
        system, said = _apart(history)
        return Fitted([*system, *windowed(said, tokens)])


@dataclass
class Summarised:
    """Sums up what is too old, by one model turn, and remembers that by its very text: it is paid once.

    `timeout_seconds` bounds the turn; `max_kept` summaries are remembered. Where it fails, old turns are left out.
    """

    model: Model
    timeout_seconds: float = 8
    max_kept: int = 2_000
    _known: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])

    async def fit(self, history: Sequence[Message], tokens: int, spent: Spent, seconds: float) -> Fitted:
        """See Conversation."""
        system, said = _apart(history)
        if sum(message.tokens for message in said) <= tokens:
            return Fitted(list(history))
        for_summary = int(tokens * _SUMMARY_SHARE)
        place = cut(said, tokens - for_summary)
        kept = said[place:]
        if not place or not for_summary:
            return Fitted([*system, *kept])
        try:
            async with asyncio.timeout(min(seconds, self.timeout_seconds)):
                summary = await self._summary(said[:place], for_summary, spent)
        except (TimeoutError, ServiceError, ValueError):
            lost = Degraded("conversation", "earlier turns could not be summed up, and were left out")
            return Fitted([*system, *windowed(said, tokens)], (lost,))
        return Fitted([*system, prompts.summary_message(summary), *kept])

    async def _summary(self, old: Sequence[Message], tokens: int, spent: Spent) -> str:
        keys = _keys(old)
        if known := self._known.get(keys[-1]):
            self._known.move_to_end(keys[-1])
            return known
        # A conversation that has grown was summed up before up to some earlier message.
        done = next((index + 1 for index in range(len(keys) - 1, -1, -1) if keys[index] in self._known), 0)
        before = [{"role": "summary", "text": self._known[keys[done - 1]]}] if done else []
        # Of a conversation that is longer than one turn can read, the newer part.
        written = await self._written([*before, *_described(newest(old[done:]))], tokens, spent)
        self._known[keys[-1]] = written
        while len(self._known) > self.max_kept:
            self._known.popitem(last=False)
        return written

    async def _written(self, said: Sequence[dict[str, str]], tokens: int, spent: Spent) -> str:
        """Raises ValueError where the model gives no summary."""
        task = prompts.CONVERSATION_SUMMARY.format(words=max(20, int(tokens * _WORDS_PER_TOKEN)))
        messages = [Message("system", task), Message("user", json.dumps(said, ensure_ascii=False))]
        # JSON takes more than its text; what is cut off is no summary.
        sampling = Sampling(max_tokens=tokens * 2 + 64, json_schema=_SCHEMA)
        turn = await whole_turn(self.model, messages, sampling, spent)
        summary = json_in(turn.text).get("summary")
        if not isinstance(summary, str) or not summary.strip():
            raise ValueError("no summary")
        return summary.strip()[: tokens * CHARS_PER_TOKEN]


def _apart(history: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    return (
        [message for message in history if message.role == "system"],
        [message for message in history if message.role != "system"],
    )


def _keys(messages: Sequence[Message]) -> list[str]:
    """For each message a name of all up to it."""
    digest, keys = hashlib.sha256(), list[str]()
    for message in messages:
        digest.update(f"{message.role}\0{len(message.text)}\0{message.text}".encode(errors="replace"))
        keys.append(digest.hexdigest())
    return keys


def _described(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "text": message.text} for message in messages]
