"""Turns of conversations, who they belong to, and where they are kept: the Protocol, and a store in memory."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from services.orchestrator.model import Message
from services.runtime.context import ALL_LABELS, Identity
from services.runtime.errors import NotFound

# In the memory of a process; those who said nothing for longest go first.
_MOST_OWNERS = 10_000


@dataclass(frozen=True)
class Owner:
    """Whose conversations: one principal (key or person) of one tenant. Nothing crosses from one to another."""

    tenant: str
    principal: str


@dataclass(frozen=True)
class Turn:
    """One question and its answer. `messages`: as they were said, the answer last.

    `previous`: the answer that the question followed, "" for none. `labels`: what the caller could read, which the
    answer may be made from. `record`: how it came about, to be told again; only `read` gives it, and it is empty where
    it is not kept. A turn without messages was deleted, and holds the place of one.
    """

    answer_id: str
    messages: tuple[Message, ...]
    labels: tuple[str, ...] = ()
    previous: str = ""
    record: bytes = b""

    def is_open_to(self, labels: Sequence[str]) -> bool:
        """Whether a caller with `labels` could have been given this answer."""
        return ALL_LABELS in labels or set(self.labels) <= set(labels)

    @property
    def size_bytes(self) -> int:
        """Bytes of what was said."""
        return sum(len(one.text.encode("utf-8", "replace")) for one in self.messages)


@dataclass(frozen=True)
class Bounds:
    """How much of a conversation is read: the newest turns and bytes. `ttl_seconds` from its last use on it is kept.

    `max_names`: turns and sessions that are kept of one owner; the oldest go first. A record of more than `max_bytes`
    is not kept.
    """

    ttl_seconds: int = 86_400
    max_turns: int = 50
    max_bytes: int = 256 * 1024
    max_names: int = 10_000

    def kept_record(self, turn: Turn) -> bytes:
        """The turn's record, unless it is too large."""
        return turn.record if len(turn.record) <= self.max_bytes else b""


class ConversationStore(Protocol):
    """Keeps turns. All methods raise DependencyFailed when the store is lost."""

    async def in_session(self, owner: Owner, session_id: str) -> Sequence[Turn]:
        """The turns of a session, oldest first, within the bounds; none where there is no such session."""
        ...

    async def up_to(self, owner: Owner, answer_id: str) -> Sequence[Turn]:
        """The turns up to an answer, oldest first, within the bounds. Raises NotFound."""
        ...

    async def read(self, owner: Owner, answer_id: str) -> Turn:
        """One answer by itself, with its record. Raises NotFound."""
        ...

    async def append(self, owner: Owner, turn: Turn, session_id: str = "") -> None:
        """Keeps a turn: after the newest of the session, where one is named, whatever `previous` says.

        Turns of one session that end at the same time come one after the other, in the order of these calls. An answer
        that is kept already stays as it is: a conversation has no rings.
        """
        ...

    async def forget(self, owner: Owner, *, session_id: str = "", answer_id: str = "") -> int:
        """Deletes a session with all its turns, or one answer with its question, or, where none is named, all.

        What followed a deleted answer goes on to follow what came before it. The number of turns that there were.
        Raises NotFound where nothing of that name is kept.
        """
        ...

    async def close(self) -> None:
        """Ends what it has open."""
        ...


@dataclass
class _Kept:
    turns: dict[str, tuple[float, Turn]] = field(default_factory=dict[str, tuple[float, Turn]])
    heads: dict[str, tuple[float, str]] = field(default_factory=dict[str, tuple[float, str]])


class MemoryConversations:
    """A ConversationStore in this process."""

    def __init__(self, bounds: Bounds | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._bounds = bounds or Bounds()
        self._clock = clock
        self._owners: dict[Owner, _Kept] = {}

    async def in_session(self, owner: Owner, session_id: str) -> Sequence[Turn]:
        """See ConversationStore."""
        kept = self._of(owner)
        _, head = kept.heads.get(session_id, (0.0, ""))
        if head:
            kept.heads[session_id] = self._ends(), head
        return self._walk(kept, head)

    async def up_to(self, owner: Owner, answer_id: str) -> Sequence[Turn]:
        """See ConversationStore."""
        kept = self._of(owner)
        if answer_id not in kept.turns or not kept.turns[answer_id][1].messages:
            raise unknown_answer(answer_id)
        return self._walk(kept, answer_id)

    async def read(self, owner: Owner, answer_id: str) -> Turn:
        """See ConversationStore."""
        kept = self._of(owner)
        _, turn = kept.turns.get(answer_id, (0.0, Turn("", ())))
        if not turn.messages:
            raise unknown_answer(answer_id)
        kept.turns[answer_id] = self._ends(), turn
        return turn

    async def append(self, owner: Owner, turn: Turn, session_id: str = "") -> None:
        """See ConversationStore."""
        kept = self._of(owner)
        if turn.answer_id in kept.turns:
            return
        turn = replace(turn, record=self._bounds.kept_record(turn))
        if session_id:
            _, head = kept.heads.get(session_id, (0.0, ""))
            turn = replace(turn, previous=head)
            kept.heads[session_id] = self._ends(), turn.answer_id
        kept.turns[turn.answer_id] = self._ends(), turn
        while len(kept.turns) + len(kept.heads) > self._bounds.max_names:
            _drop_oldest(kept)
        self._owners.pop(owner, None)
        self._owners[owner] = kept
        while len(self._owners) > _MOST_OWNERS:
            del self._owners[next(iter(self._owners))]

    async def forget(self, owner: Owner, *, session_id: str = "", answer_id: str = "") -> int:
        """See ConversationStore."""
        kept = self._of(owner)
        if not session_id and not answer_id:
            self._owners.pop(owner, None)
            return sum(bool(turn.messages) for _, turn in kept.turns.values())
        if answer_id:
            ends, turn = kept.turns.get(answer_id, (0.0, Turn("", ())))
            if not turn.messages:
                raise unknown_answer(answer_id)
            kept.turns[answer_id] = ends, Turn(answer_id, (), (), turn.previous)
            return 1
        if session_id not in kept.heads:
            raise unknown_session(session_id)
        _, head = kept.heads.pop(session_id)
        count = 0
        while head in kept.turns:
            _, turn = kept.turns.pop(head)
            head, count = turn.previous, count + bool(turn.messages)
        return count

    async def close(self) -> None:
        """See ConversationStore."""

    def _walk(self, kept: _Kept, head: str) -> Sequence[Turn]:
        turns: list[Turn] = []
        left = self._bounds.max_bytes
        while head in kept.turns and len(turns) < self._bounds.max_turns:
            _, turn = kept.turns[head]
            left -= turn.size_bytes
            if left < 0:
                break
            kept.turns[head] = self._ends(), turn
            head = turn.previous
            if turn.messages:
                turns.insert(0, turn)
        return turns

    def _of(self, owner: Owner) -> _Kept:
        """What is kept of the owner and has not come to its end."""
        kept, now = self._owners.get(owner, _Kept()), self._clock()
        for known in (kept.turns, kept.heads):
            for name in [name for name, (ends, _) in known.items() if ends <= now]:
                del known[name]
        return kept

    def _ends(self) -> float:
        return self._clock() + self._bounds.ttl_seconds


def _drop_oldest(kept: _Kept) -> None:
    _, known, name = min(
        ((ends, known, name) for known in (kept.turns, kept.heads) for name, (ends, _) in known.items()),
        key=lambda one: one[0],
    )
    del known[name]


def owner_of(identity: Identity) -> Owner:
    """Whose conversations a caller reads and writes."""
    return Owner(identity.tenant, identity.principal)


def unknown_answer(answer_id: str) -> NotFound:
    """No such answer, or another's, or too old: they must look alike."""
    return NotFound(f"There is no answer `{answer_id[:100]}`: it is not kept, or no more.", answer=answer_id)


def unknown_session(session_id: str) -> NotFound:
    """No such session, or another's, or too old."""
    return NotFound(f"There is no session `{session_id[:100]}`, or no more.", session=session_id)
