"""What a turn is about: the question, the tools on offer, and what was called and found for it so far."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.runtime.expressions.dates import date_ranges
from services.runtime.expressions.quantities import comparisons
from services.understudy.words import content, fold

# What the ids of our own tool calls begin with, as vLLM's do.
CALL_ID = "chatcmpl-tool-"
# What an agent puts after a question that leans on what was found before it.
_GIVEN = re.compile(r"\s*<earlier_steps>(?P<found>.*)</earlier_steps>\s*$", re.DOTALL)
_TOOLS = re.compile(r"<tools>(?P<lines>.*?)</tools>", re.DOTALL)
# A message on the user's side that asks nothing: it is time to answer.
_NO_QUESTION = re.compile(r"^\[No more tools", re.MULTILINE)
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
    """One turn. `rounds` are the calls of each assistant message since the question, `results` (tool, content).

    `turn`: how many of the model's own are behind it. `given`: what was found before the question was asked, which it
    may lean on; untrusted text. `described`: tools that a system message tells of, for agents that have their calls
    written as JSON.
    """

    question: str
    earlier: str
    rounds: tuple[tuple[Call, ...], ...]
    results: tuple[tuple[str, str], ...]
    turn: int
    given: str = ""
    described: tuple[Tool, ...] = ()

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
    while len(asked) > 1 and _asks_nothing(messages, asked[-1]):
        asked.pop()
    last = asked[-1] if asked else -1
    after = messages[last + 1 :]
    names = {call_id: call.name for message in messages for call_id, call in message.calls}
    rounds = tuple(tuple(call for _, call in message.calls) for message in after if message.calls)
    results = tuple(
        (names.get(message.call_id) or message.name, message.text) for message in after if message.role == "tool"
    )
    question = messages[last].text if asked else ""
    given = _GIVEN.search(question)
    return Conversation(
        question=question[: given.start()] if given else question,
        earlier=messages[asked[-2]].text if len(asked) > 1 else "",
        rounds=rounds,
        results=results,
        turn=sum(message.role == "assistant" and _is_own(message) for message in after),
        given=given["found"] if given else "",
        described=tuple(tool for message in messages if message.role == "system" for tool in _described(message.text)),
    )


def _is_own(message: Message) -> bool:
    """Whether a turn of ours said it. Calls that an application decides on cost the model no turn, and have its ids."""
    return not message.calls or any(call_id.startswith(CALL_ID) for call_id, _ in message.calls)


def _described(text: str) -> list[Tool]:
    """Tools that stand between marks, each a line of JSON."""
    found = _TOOLS.search(text)
    tools: list[Tool] = []
    for line in found["lines"].splitlines() if found else ():
        try:
            tool: Any = json.loads(line)
            tools.append(Tool(str(tool["name"]), str(tool["description"]), dict(tool["parameters"])))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return tools


def _asks_nothing(messages: Sequence[Message], index: int) -> bool:
    """Whether what the user's side says is about how to go on."""
    return messages[index - 1].role == "tool" or bool(_NO_QUESTION.search(messages[index].text))
