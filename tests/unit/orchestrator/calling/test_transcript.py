import itertools

from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.calling.profiles import HERMES, LLAMA3_JSON, MISTRAL, OPENAI, PROFILES, QWEN3
from services.orchestrator.calling.transcript import shaped
from services.orchestrator.model import Message, ToolCall

ONE, OTHER = ToolCall("call_1", "vector_search", "{}"), ToolCall("call_2", "sql_query", "{}")
RUN = [
    Message("system", "Rules."),
    Message("system", "Today is Monday."),
    Message("user", "Why?"),
    Message("assistant", "I need both.", (ONE, OTHER)),
    Message("tool", "first", call_id="call_1"),
    Message("tool", "second", call_id="call_2"),
    Message("user", "Answer now."),
]


def outline(messages):
    return [(message.role, message.text, tuple(call.name for call in message.calls)) for message in messages]


def test_what_has_no_quirks_stays_as_it_is():
    assert shaped(RUN, OPENAI) == RUN
    assert shaped(RUN, HERMES) == RUN


def test_llama_is_given_one_call_a_message_each_followed_by_its_result():
    assert outline(shaped(RUN, LLAMA3_JSON))[3:] == [
        ("assistant", "I need both.", ("vector_search",)),
        ("tool", "first", ()),
        ("assistant", "", ("sql_query",)),
        ("tool", "second", ()),
        ("user", "Answer now.", ()),
    ]


def test_mistral_is_given_one_system_message_turns_short_ids_and_no_text_beside_calls():
    shape = shaped(RUN, MISTRAL)
    assert outline(shape) == [
        ("system", "Rules.\n\nToday is Monday.", ()),
        ("user", "Why?", ()),
        ("assistant", "", ("vector_search", "sql_query")),
        ("tool", "first", ()),
        ("tool", "second", ()),
        ("assistant", "I have read the results.", ()),
        ("user", "Answer now.", ()),
    ]
    ids = [call.id for call in shape[2].calls]
    assert [message.call_id for message in shape if message.role == "tool"] == ids
    assert all(len(one) == 9 and one.isalnum() for one in ids)
    assert len(set(ids)) == 2


def test_an_id_that_is_right_already_stays():
    run = [Message("assistant", "", (ToolCall("a1B2c3D4e", "x", "{}"),)), Message("tool", "y", call_id="a1B2c3D4e")]
    assert shaped(run, MISTRAL) == run


def test_what_is_true_of_one_run_goes_to_the_head_of_the_question():
    history = [Message("system", "Rules."), Message("user", "Hi"), Message("assistant", "Hello")]
    shape = shaped([*history, Message("system", "Today is Monday."), Message("user", "Why?")], QWEN3)
    assert outline(shape)[3:] == [("user", "Today is Monday.\n\nWhy?", ())]


MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant", "system"]), st.text(max_size=3))
    | st.builds(
        lambda names: Message("assistant", "t", tuple(ToolCall(name, "x", "{}") for name in names)),
        st.lists(st.uuids().map(str), min_size=1, max_size=3),
    ),
    max_size=8,
).map(
    lambda messages: [
        part
        for message in messages
        for part in (message, *(Message("tool", f"of {call.id}", call_id=call.id) for call in message.calls))
    ]
)


@given(st.sampled_from(list(PROFILES.values())), MESSAGES)
def test_every_call_keeps_exactly_its_result_and_every_word_stays(profile, messages):
    shape = shaped(messages, profile)
    called = [call.id for message in shape for call in message.calls]
    answered = [message.call_id for message in shape if message.role == "tool"]
    assert called == answered
    assert len(called) == sum(len(message.calls) for message in messages)
    said = " ".join(message.text for message in shape)
    assert all(message.text.strip() in said for message in messages if not message.calls)
    if profile.alternating:
        for one, other in itertools.pairwise(shape):
            assert (one.role, other.role) not in (("tool", "user"), ("user", "user"))
            assert one.role != "assistant" or other.role != "assistant" or one.calls or other.calls
    if profile.one_system:
        assert all(message.role != "system" for message in shape[1:])


@given(st.sampled_from(list(PROFILES.values())), st.integers(1, 4))
def test_a_transcript_that_grows_keeps_its_beginning(profile, rounds):
    run = RUN[:3]
    before = shaped(run, profile)
    for number in range(rounds):
        calls = tuple(ToolCall(f"{number}-{i}", "x", "{}") for i in range(2))
        run = [*run, Message("assistant", "", calls), *(Message("tool", "r", call_id=call.id) for call in calls)]
        after = shaped(run, profile)
        assert after[: len(before)] == before
        before = after
