"""What a turn is about: the question, the tools on offer, and what was called and found for it so far."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.understudy.dates import date_ranges
from services.understudy.quantities import comparisons
from services.understudy.words import content, fold

_FOLLOW_UP = re.compile(r"^\W*(?:y|and|what about|how about|que hay de|and what about|o|or)\b")


@dataclass(frozen=True)
class Tool:
    """A tool on offer: name, description for the model, JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call of this turn or an earlier one; `arguments` is a JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Conversation:
    """One turn. `rounds` are the calls of each assistant message since the question, `results` (tool, content)."""

    question: str
    earlier: str
    rounds: tuple[tuple[Call, ...], ...]
    results: tuple[tuple[str, str], ...]
    turn: int

    @property
    def whole_question(self) -> str:
        """The question; a follow-up such as `and in 2024?` is completed with the one before it."""
        if not self.earlier or not _FOLLOW_UP.match(fold(self.question)) or len(content(self.question)) > 5:
            return self.question
        any_day = date(2000, 1, 1)
        replaced = date_ranges(self.earlier, any_day) if date_ranges(self.question, any_day) else []
        spans = [(one.start, one.end) for one in replaced]
        if comparisons(self.question):
            spans += [(one.start, one.end) for one in comparisons(self.earlier)]
        earlier = self.earlier
        for start, end in sorted(spans, reverse=True):
            earlier = earlier[:start] + earlier[end:]
        return f"{earlier.strip().rstrip('?.')} {_FOLLOW_UP.sub('', self.question, count=1).strip(' ,')}"


@dataclass(frozen=True)
class Message:
    """A message as plain data. `calls` are (id, call); `call_id` is set for results of tools."""

    role: str
    text: str
    calls: tuple[tuple[str, Call], ...] = ()
    call_id: str = ""
    name: str = ""


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """The last question and what followed it.

    What the user's side says right after a tool's result, such as that it is time to answer, is no question of its own.
    """
    asked = [index for index, message in enumerate(messages) if message.role == "user" and message.text.strip()]
    while len(asked) > 1 and messages[asked[-1] - 1].role == "tool":
        asked.pop()
    last = asked[-1] if asked else -1
    after = messages[last + 1 :]
    names = {call_id: call.name for message in messages for call_id, call in message.calls}
    rounds = tuple(tuple(call for _, call in message.calls) for message in after if message.calls)
    results = tuple(
        (names.get(message.call_id) or message.name, message.text) for message in after if message.role == "tool"
    )
    return Conversation(
        question=messages[last].text if asked else "",
        earlier=messages[asked[-2]].text if len(asked) > 1 else "",
        rounds=rounds,
        results=results,
        turn=sum(message.role == "assistant" for message in after),
    )
