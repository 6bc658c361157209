"""A question sees the conversation before it, and its turn is kept after it, for the same caller alone."""

import uuid

import pytest

from services.orchestrator.events import Chosen, Finish, Finished, Text, Timings
from services.orchestrator.model import Message, Usage
from services.orchestrator.results import Degraded
from services.orchestrator.sessions.conversation import Bounds, MemoryConversations, owner_of
from services.orchestrator.sessions.sessions import Conversation, SessionOptions, Sessions
from services.runtime.context import Identity
from services.runtime.errors import DependencyFailed, InvalidField, NotFound

ANA = Identity("acme", "ana")
ASKED = [Message("system", "Be brief."), Message("user", "How many?")]
LOST = Degraded("sessions", "the store of conversations does not answer")


class LostStore(MemoryConversations):
    """A store that fails from the given call on."""

    def __init__(self, good_calls=0):
        super().__init__()
        self.left = good_calls

    async def in_session(self, *given, **named):
        self._count()
        return await super().in_session(*given, **named)

    async def append(self, *given, **named):
        self._count()
        return await super().append(*given, **named)

    def _count(self):
        self.left -= 1
        if self.left < 0:
            raise DependencyFailed("valkey does not answer.")


async def run(answer="47 [1].", answer_id="ans_1"):
    yield Chosen("react", "as asked")
    for piece in (answer[:2], answer[2:]):
        yield Text(piece)
    yield Finished(answer_id, Finish.ANSWERED, "", 1, Usage(), Timings(0, 0, 0, 0), 0)


async def ask(sessions, caller=ANA, asked=ASKED, answer_id="", **wanted):
    answer_id = answer_id or f"ans_{uuid.uuid4().hex}"
    conversation = await sessions.open(caller, SessionOptions(**wanted))
    events = [one async for one in conversation.kept(run(answer_id=answer_id), asked)]
    return conversation.history, events


async def test_a_session_holds_question_and_answer_without_the_applications_rules():
    sessions = Sessions(MemoryConversations())
    history, events = await ask(sessions, session_id="s")
    assert history == ()
    assert [type(one) for one in events] == [Chosen, Text, Text, Finished]
    history, _ = await ask(sessions, session_id="s", answer_id="ans_2")
    assert history == (Message("user", "How many?"), Message("assistant", "47 [1]."))
    history, _ = await ask(sessions, session_id="s", answer_id="ans_3")
    assert len(history) == 4


async def test_an_answer_is_kept_to_be_followed_only_when_that_is_asked_for():
    sessions = Sessions(MemoryConversations())
    await ask(sessions, answer_id="ans_1")
    with pytest.raises(NotFound):
        await ask(sessions, previous_answer_id="ans_1")
    await ask(sessions, store=True, answer_id="ans_0")
    history, _ = await ask(sessions, previous_answer_id="ans_0", store=True, answer_id="ans_2")
    assert len(history) == 2
    history, _ = await ask(sessions, previous_answer_id="ans_2")
    assert len(history) == 4


async def test_an_answer_can_be_given_its_id():
    sessions = Sessions(MemoryConversations())
    _, events = await ask(sessions, store=True, answer_id="ans_1")
    assert events[-1].answer_id == "ans_1"
    conversation = await sessions.open(ANA, SessionOptions(store=True, answer_id="ans_mine"))
    events = [one async for one in conversation.kept(run(), ASKED)]
    assert events[-1].answer_id == "ans_mine"
    assert len((await ask(sessions, previous_answer_id="ans_mine"))[0]) == 2


async def test_another_caller_sees_nothing_of_it():
    sessions = Sessions(MemoryConversations())
    await ask(sessions, session_id="s", answer_id="ans_1")
    for other in (Identity("acme", "ben"), Identity("other", "ana")):
        assert (await ask(sessions, caller=other, session_id="s"))[0] == ()
        with pytest.raises(NotFound):
            await ask(sessions, caller=other, previous_answer_id="ans_1")


async def test_a_caller_narrowed_to_fewer_labels_sees_only_what_those_could_have_told():
    sessions = Sessions(MemoryConversations())
    hr, staff, chief = (Identity("acme", "app", (), labels) for labels in (("hr", "staff"), ("staff",), ("*",)))
    await ask(sessions, caller=staff, session_id="s", answer_id="ans_1")
    await ask(sessions, caller=hr, session_id="s", answer_id="ans_2")
    await ask(sessions, caller=chief, session_id="s", answer_id="ans_3")
    assert [len((await ask(sessions, caller=one, session_id="s"))[0]) for one in (staff, hr)] == [2, 6]
    with pytest.raises(NotFound):
        await ask(sessions, caller=staff, previous_answer_id="ans_2")
    with pytest.raises(NotFound):
        await ask(sessions, caller=hr, previous_answer_id="ans_3")
    assert len((await ask(sessions, caller=chief, previous_answer_id="ans_3"))[0]) == 6


async def test_a_store_that_is_lost_is_said_once_and_the_run_goes_on():
    for good_calls in (0, 1):
        _, events = await ask(Sessions(LostStore(good_calls)), session_id="s")
        assert events.count(LOST) == 1
        assert isinstance(events[-1], Finished)
        assert isinstance(events[0], Chosen)


async def test_the_time_of_keeping_an_answer_is_part_of_the_answers_time():
    times = iter([3.0, 3.5])
    wanted, store = SessionOptions(session_id="s"), MemoryConversations()
    conversation = Conversation(wanted, store, owner_of(ANA), clock=lambda: next(times))
    (*_, end) = [one async for one in conversation.kept(run(), ASKED)]
    assert (end.timings.cache, end.timings.total) == (0.5, 0.5)


async def test_what_would_not_be_read_again_is_not_kept():
    store = MemoryConversations(Bounds(max_bytes=10_000_000))
    long = [Message("user", "x" * 3_000_000), Message("assistant", "Thanks."), Message("user", "How many?")]
    await ask(Sessions(store), asked=long, session_id="s")
    history, _ = await ask(Sessions(store), session_id="s")
    assert sum(len(one.text) for one in history) < 70_000
    assert [one.text for one in history[1:]] == ["Thanks.", "How many?", "47 [1]."]


async def test_only_a_stored_answer_has_a_record_and_only_who_could_have_had_it_reads_it():
    sessions = Sessions(MemoryConversations())
    hr, staff = (Identity("acme", "app", (), labels) for labels in (("hr", "staff"), ("staff",)))

    async def keep(answer_id, **wanted):
        conversation = await sessions.open(hr, SessionOptions(answer_id=answer_id, **wanted))
        async for _ in conversation.kept(run(), ASKED, lambda end: f"up to {end.answer_id}".encode()):
            pass

    await keep("ans_stored", store=True)
    await keep("ans_in_session", session_id="s")
    assert await sessions.read(hr, "ans_stored") == b"up to ans_stored"
    for caller, answer_id in ((hr, "ans_in_session"), (staff, "ans_stored"), (ANA, "ans_stored"), (hr, "ans_none")):
        with pytest.raises(NotFound):
            await sessions.read(caller, answer_id)
    with pytest.raises(NotFound):
        await Sessions().read(hr, "ans_stored")


async def test_a_run_that_is_broken_off_keeps_nothing():
    store = MemoryConversations()
    conversation = await Sessions(store).open(ANA, SessionOptions(session_id="s"))
    events = conversation.kept(run(), ASKED)
    await anext(events)
    await anext(events)
    await events.aclose()
    assert (await ask(Sessions(store), session_id="s"))[0] == ()


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"session_id": "a b"}, "options.session_id"),
        ({"session_id": "x" * 129}, "options.session_id"),
        ({"previous_answer_id": "../x"}, "options.previous_answer_id"),
        ({"answer_id": "x\n"}, "options.answer_id"),
        ({"session_id": "a", "previous_answer_id": "b"}, "options.previous_answer_id"),
    ],
)
async def test_ids_that_are_none_are_named(wanted, field):
    with pytest.raises(InvalidField) as caught:
        await Sessions(MemoryConversations()).open(ANA, SessionOptions(**wanted))
    assert caught.value.metadata["field"] == field


async def test_where_nothing_is_kept_that_is_said():
    for wanted in ({"session_id": "s"}, {"previous_answer_id": "ans_1"}):
        with pytest.raises(InvalidField, match="not kept here"):
            await Sessions().open(ANA, SessionOptions(**wanted))
    history, events = await ask(Sessions(), store=True)
    assert (history, isinstance(events[-1], Finished)) == ((), True)


async def test_one_thing_is_forgotten_at_a_time():
    sessions = Sessions(MemoryConversations())
    await ask(sessions, session_id="s")
    for wrong in ({}, {"session_id": "s", "everything": True}, {"session_id": "s", "answer_id": "a"}):
        named = {"session_id": "", "answer_id": "", "everything": False} | wrong
        with pytest.raises(InvalidField):
            await sessions.forget(ANA, **named)
    assert await sessions.forget(ANA, session_id="s", answer_id="", everything=False) == 1
    assert await sessions.forget(ANA, session_id="", answer_id="", everything=True) == 0
