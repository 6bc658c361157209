"""What a question has of the conversation before it, and how its own turn is kept after it."""

import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from services.orchestrator.conversation.window import newest
from services.orchestrator.events import Event, Finished, Text
from services.orchestrator.model import Message
from services.orchestrator.results import Degraded
from services.orchestrator.sessions.conversation import ConversationStore, Owner, Turn, owner_of, unknown_answer
from services.runtime.context import Identity
from services.runtime.errors import DependencyFailed, InvalidField, ServiceError

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
# Puts a run that ends so into a form in which it can be told again.
Record = Callable[[Finished], bytes]
_LOST = Degraded("sessions", "the store of conversations does not answer")


@dataclass(frozen=True)
class SessionOptions:
    """What a request says of conversations. `answer_id`: what its answer shall be called; empty: whatever it is."""

    session_id: str = ""
    previous_answer_id: str = ""
    store: bool = False
    answer_id: str = ""

    @property
    def keeps(self) -> bool:
        """Whether the answer is to be kept."""
        return self.store or bool(self.session_id)

    def check(self) -> None:
        """Raises InvalidField."""
        for name in ("session_id", "previous_answer_id", "answer_id"):
            value: str = getattr(self, name)
            if value and not _ID.fullmatch(value):
                said = "must be 1 to 128 letters, digits, `_` and `-`."
                raise InvalidField(f"`options.{name}` {said}", field=f"options.{name}")
        if self.session_id and self.previous_answer_id:
            raise InvalidField("Name a session or the answer before, not both.", field="options.previous_answer_id")


@dataclass
class Conversation:
    """The conversation of one run. `history`: what was said before it, for this caller."""

    wanted: SessionOptions
    store: ConversationStore | None
    owner: Owner
    labels: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    clock: Callable[[], float] = time.monotonic
    _lost: bool = field(default=False)
    _first: str = field(default="")

    def id(self, answer_id: str) -> str:
        """What all its answers have in common: the session's name, or the first answer. Empty where that is unknown.

        `answer_id`: of this run's own.
        """
        if self.store is None or self._lost:
            return ""
        if self.wanted.session_id or self.wanted.previous_answer_id:
            return self.wanted.session_id or self._first
        return answer_id if self.wanted.store else ""

    async def load(self) -> None:
        """Fills `history`. Raises NotFound; a store that is lost is said later, by an event."""
        if self.store is None or not (self.wanted.session_id or self.wanted.previous_answer_id):
            return
        try:
            if self.wanted.session_id:
                turns = await self.store.in_session(self.owner, self.wanted.session_id)
            else:
                turns = await self.store.up_to(self.owner, self.wanted.previous_answer_id)
        except DependencyFailed:
            self._lost = True
            return
        self._first = turns[0].answer_id if turns and not turns[0].previous else ""
        readable = [one for one in turns if one.is_open_to(self.labels)]
        named = self.wanted.previous_answer_id
        if named in {one.answer_id for one in turns} - {one.answer_id for one in readable}:
            raise unknown_answer(named)  # it may be made from what this caller may not read
        self.history = tuple(message for one in readable for message in one.messages)

    async def kept(
        self, events: AsyncGenerator[Event], asked: Sequence[Message], record: Record = lambda _: b""
    ) -> AsyncGenerator[Event]:
        """The run's events; the turn, `asked` and the answer, is kept just before the last one.

        `record` makes what a stored answer is told again from.
        """
        said: list[str] = []
        told = False
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Finished):
                    started, answer_id = self.clock(), self.wanted.answer_id or event.answer_id
                    event = replace(event, answer_id=answer_id, conversation_id=self.id(answer_id))
                    await self._keep(event, asked, "".join(said), record)
                    spent = self.clock() - started  # the reader waits for that too
                    event = replace(event, timings=replace(event.timings, cache=event.timings.cache + spent))
                    if self._lost and not told:
                        yield _LOST
                    yield event
                    return
                if isinstance(event, Text):
                    said.append(event.text)
                yield event
                if self._lost and not told:
                    told = True
                    yield _LOST

    async def _keep(self, end: Finished, asked: Sequence[Message], answer: str, record: Record) -> None:
        if self.store is None or not self.wanted.keeps or self._lost:
            return
        said = newest([one for one in asked if one.role != "system"])  # more would not be read again
        messages = (*said, Message("assistant", answer))
        kept = record(end) if self.wanted.store else b""
        turn = Turn(end.answer_id, messages, self.labels, self.wanted.previous_answer_id, kept)
        try:
            await self.store.append(self.owner, turn, self.wanted.session_id)
        except ServiceError:
            self._lost = True


class Sessions:
    """Conversations of all callers. Without a store none is kept."""

    def __init__(self, store: ConversationStore | None = None) -> None:
        self._store = store

    async def open(self, caller: Identity, wanted: SessionOptions) -> Conversation:
        """The conversation that a question belongs to. Raises InvalidField and NotFound (`previous_answer_id`)."""
        wanted.check()
        if self._store is None and (named := wanted.session_id or wanted.previous_answer_id):
            field_name = "session_id" if wanted.session_id else "previous_answer_id"
            raise InvalidField(
                f"Conversations are not kept here, so `{named}` is none (SABUESO_SESSION_TTL_SECONDS is 0).",
                field=f"options.{field_name}",
            )
        conversation = Conversation(wanted, self._store, owner_of(caller), caller.labels)
        await conversation.load()
        return conversation

    async def read(self, caller: Identity, answer_id: str) -> bytes:
        """The record of a stored answer. Raises InvalidField, NotFound and DependencyFailed."""
        SessionOptions(answer_id=answer_id).check()
        if self._store is None:
            raise unknown_answer(answer_id)
        turn = await self._store.read(owner_of(caller), answer_id)
        if not turn.record or not turn.is_open_to(caller.labels):
            raise unknown_answer(answer_id)
        return turn.record

    async def forget(self, caller: Identity, *, session_id: str, answer_id: str, everything: bool) -> int:
        """Deletes what is named. The number of turns. Raises InvalidField, NotFound and DependencyFailed."""
        if sum((bool(session_id), bool(answer_id), everything)) != 1:
            raise InvalidField("Name one of `session_id`, `answer_id` and `everything`.", field="session_id")
        SessionOptions(session_id=session_id, answer_id=answer_id).check()
        if self._store is None:
            return 0
        return await self._store.forget(owner_of(caller), session_id=session_id, answer_id=answer_id)
