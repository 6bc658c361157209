"""Which answers were given, and what was said of them: the Protocol, and a ledger in memory."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.answer import finish_word
from services.gateway.telemetry.feedback import place
from services.runtime.errors import NotFound

ANSWER_SECONDS = 30 * 86400.0


@dataclass(frozen=True)
class AnswerFacts:
    """What is kept of an answer, none of its words. `trace_id`, `span_id`: hex, empty where it was not traced."""

    answer_id: str
    strategy: str = ""
    finish: str = ""
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True)
class Feedback:
    """What one person says of one answer. `score`: -1 to 1. `end_user`: as the application calls them, or empty."""

    answer_id: str
    key: str
    end_user: str
    score: float
    comment: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def who(self) -> str:
        """Whose word it is, and of what: the last one of the same counts."""
        return json.dumps((self.answer_id, self.key, self.end_user))


@dataclass(frozen=True)
class Entry:
    """Feedback that is kept. `id` grows with time and starts with the milliseconds since 1970."""

    id: str
    feedback: Feedback
    answer: AnswerFacts

    @property
    def created_at(self) -> int:
        """Seconds since 1970."""
        return int(self.id.partition("-")[0]) // 1000


@dataclass(frozen=True)
class Kept:
    """What became of feedback. `changed`: False when the same was said before."""

    entry: Entry
    changed: bool


class Ledger(Protocol):
    """Remembers answers for 30 days, and the newest feedback of each tenant."""

    async def remember(self, tenant: str, answer: AnswerFacts) -> None:
        """Notes an answer. Never fails and is never long: what is lost is counted, and its feedback is not found."""
        ...

    async def keep(self, tenant: str, feedback: Feedback) -> Kept:
        """Keeps the word, in place of an earlier one of the same person on the same answer.

        Raises NotFound (no such answer of this tenant) and DependencyFailed.
        """
        ...

    async def entries(self, tenant: str, after: str, limit: int) -> list[Entry]:
        """Up to `limit` of them, oldest first, that come after the entry `after`. Raises DependencyFailed."""
        ...


class MemoryLedger:
    """A ledger of this process only."""

    def __init__(self, most_entries: int = 10_000) -> None:
        self._most_entries = most_entries
        self._answers: dict[tuple[str, str], AnswerFacts] = {}
        self._entries: dict[str, dict[str, Entry]] = {}
        self._last = (0, 0)

    async def remember(self, tenant: str, answer: AnswerFacts) -> None:
        self._answers[tenant, answer.answer_id] = answer

    async def keep(self, tenant: str, feedback: Feedback) -> Kept:
        answer = self._answers.get((tenant, feedback.answer_id))
        if answer is None:
            raise unknown_answer(feedback.answer_id)
        entries = self._entries.setdefault(tenant, {})
        earlier = next((one for one in entries.values() if one.feedback.who == feedback.who), None)
        if earlier is not None and earlier.feedback == feedback:
            return Kept(earlier, changed=False)
        if earlier is not None:
            del entries[earlier.id]
        entry = Entry(self._next_id(), feedback, answer)
        entries[entry.id] = entry
        while len(entries) > self._most_entries:
            del entries[next(iter(entries))]
        return Kept(entry, changed=True)

    async def entries(self, tenant: str, after: str, limit: int) -> list[Entry]:
        found = [one for id_, one in self._entries.get(tenant, {}).items() if order(id_) > order(after)]
        return found[:limit]

    def _next_id(self) -> str:
        now = int(time.time() * 1000)
        self._last = (now, 0) if now > self._last[0] else (self._last[0], self._last[1] + 1)
        return f"{self._last[0]}-{self._last[1]}"


def order(id_: str) -> tuple[int, int]:
    """Entries' ids as pairs that compare by time; the empty id comes before all."""
    milliseconds, _, number = id_.partition("-")
    return int(milliseconds or 0), int(number or 0)


def facts_of(finished: pb.Finished) -> AnswerFacts:
    """What is kept of an answer that has just ended, in the current trace."""
    return AnswerFacts(finished.answer_id, finished.strategy, finish_word(finished.finish), *place())


def unknown_answer(answer_id: str) -> NotFound:
    """No such answer, or it is another tenant's: the two must look alike."""
    return NotFound(f"There is no answer `{answer_id[:100]}`, or it is older than 30 days.")
