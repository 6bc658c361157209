"""What the model reads of a run: its messages, results in place of the calls that asked for them, and their size."""

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from services.orchestrator.call_memory import Failure
from services.orchestrator.evidence import Evidence, error_observation
from services.orchestrator.model import Message, ToolCall, ToolSpec, Turn, Usage, estimate_tokens
from services.orchestrator.results import Found
from services.orchestrator.shield.shield import Shield


@dataclass
class Transcript:
    """`reader` names it for the evidence. `call_ids`: those of the whole run."""

    messages: list[Message]
    evidence: Evidence
    shield: Shield
    reader: str = ""
    call_ids: set[str] = field(default_factory=set[str])
    _read: tuple[int, int] = (0, 0)
    _results: list[tuple[int, int, Found]] = field(default_factory=list[tuple[int, int, Found]])

    def tokens(self, described: int) -> int:
        """What the next turn has to read, with tools of the size `described`: as the model counted, else estimated."""
        count, counted = self._read
        return max(_size(self.messages) + described, counted + _size(self.messages[count:]))

    def was_read(self, usage: Usage) -> None:
        """Notes what the model says that it has read of all this."""
        if usage.prompt_tokens:
            self._read = (len(self.messages), usage.prompt_tokens)

    def add_calls(self, turn: Turn) -> Sequence[ToolCall]:
        """Adds a turn. Returns its calls under ids that are unique in the run."""
        calls: list[ToolCall] = []
        for call in turn.calls:
            if not call.id or call.id in self.call_ids:
                call = replace(call, id=f"call_{secrets.token_hex(6)}")
            self.call_ids.add(call.id)
            calls.append(call)
        self.messages.append(Message("assistant", turn.text, tuple(calls)))
        return calls

    def add_failure(self, call: ToolCall, failure: Failure) -> None:
        """Adds why a call gave nothing."""
        helps = {"code": failure.code, "position": failure.position, "hint": failure.hint}
        text = error_observation(call.name, failure.message, **helps)
        self.messages.append(Message("tool", text, call_id=call.id))

    def add_result(self, call: ToolCall, found: Found, cited: Collection[int]) -> None:
        """Adds a result. Older ones take less room once there are many of their kind, but for what was `cited`."""
        self._results.append((self.evidence.count, len(self.messages), found))
        text = self.shield.present(self.evidence.add(found, self.reader), found)
        self.messages.append(Message("tool", text, call_id=call.id))
        self.evidence.cite(cited)
        for index, position, older in self._results:
            if short := self.evidence.shortened(index):
                presented = self.shield.present(short, older)
                self.messages[position] = replace(self.messages[position], text=presented)

    def add_complaint(self, turn: Turn) -> None:
        """Adds a turn that could not be read, and what is said to it."""
        self.messages += [Message("assistant", turn.text or "(no text)"), Message("user", turn.malformed)]

    @property
    def results(self) -> Sequence[str]:
        """What tools said, as the model reads it."""
        return [message.text for message in self.messages if message.role == "tool"]


def described(specs: Sequence[ToolSpec]) -> int:
    """Rough size of the tools in tokens."""
    return sum(estimate_tokens(one.name + one.description + json.dumps(one.parameters)) for one in specs)


def _size(messages: Sequence[Message]) -> int:
    return sum(message.tokens for message in messages)
