import itertools

from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.conversation.window import cut, newest, windowed
from services.orchestrator.model import Message


def talk(*sizes):
    """User and assistant in turns, each message of so many tokens."""
    return [Message(("user", "assistant")[i % 2], "x" * max(0, (size - 4) * 4)) for i, size in enumerate(sizes)]


def size(messages):
    return sum(message.tokens for message in messages)


def test_what_fits_is_kept_whole():
    history = talk(10, 10, 10, 10)
    assert windowed(history, 40) == history


def test_the_window_moves_only_once_in_a_while():
    """Else no prompt would begin as the one before."""
    grown = [talk(*[10] * (2 * turns)) for turns in range(1, 60)]
    cuts = [cut(history, 100) for history in grown]
    assert cuts == sorted(cuts)
    assert all(size(windowed(history, 100)) <= 100 for history in grown)
    moves = sum(one != other for one, other in itertools.pairwise(cuts))
    assert moves <= len(grown) * 20 / 50
    # And half of the budget at least is used once it is full.
    assert all(size(windowed(history, 100)) >= 50 for history in grown[5:])


def test_a_message_that_is_larger_than_all_leaves_the_newer_ones():
    assert windowed(talk(10, 500, 10, 10), 60) == talk(10, 500, 10, 10)[2:]
    assert windowed(talk(10, 10, 10, 500), 60) == []


@given(st.lists(st.integers(4, 60), max_size=40), st.integers(0, 200))
def test_a_window_is_within_its_budget_is_the_end_of_the_conversation_and_begins_with_the_user(sizes, tokens):
    history = talk(*sizes)
    kept = windowed(history, tokens)
    assert size(kept) <= tokens
    assert kept == history[len(history) - len(kept) :]
    assert not kept or kept[0].role == "user"


def test_the_newest_of_a_conversation_is_so_long_and_the_applications_rules_are_in_it():
    said = [Message("system", "Rules."), Message("user", "a" * 50), Message("user", "b" * 9), Message("assistant", "c")]
    assert [one.text for one in newest(said, 20)] == ["Rules.", "a" * 10, "b" * 9, "c"]
    assert [one.text for one in newest(said, 10)] == ["Rules.", "b" * 9, "c"]
    assert [one.text for one in newest(said, 0)] == ["Rules."]
    assert newest(said, 1_000) == said
