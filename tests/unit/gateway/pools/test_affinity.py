import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.pools.affinity import PrefixTable, prefix_hashes, session_owner


def conversation(*texts):
    return {"messages": [{"role": "user", "content": text} for text in texts]}


LONG = "Un perro sigue el rastro. " * 100


def test_a_conversation_that_goes_on_begins_with_the_same_hashes():
    first = prefix_hashes("t", "m", conversation(LONG))
    second = prefix_hashes("t", "m", conversation(LONG, "answer", LONG))
    assert len(second) > len(first) > 2
    assert second[: len(first)] == first


def test_prompts_part_where_their_texts_do():
    one = prefix_hashes("t", "m", conversation(LONG + "a" * 1000))
    two = prefix_hashes("t", "m", conversation(LONG + "b" * 1000))
    same = sum(a == b for a, b in zip(one, two, strict=True))
    assert 0 < same < len(one)
    assert one[same:] != two[same:]
    assert not set(one[same:]) & set(two[same:])


def test_tenants_and_models_share_nothing():
    prompts = [prefix_hashes(tenant, model, conversation(LONG)) for tenant in "ab" for model in "mn"]
    assert len({one for prompt in prompts for one in prompt}) == sum(map(len, prompts))


def test_tools_come_before_the_messages_and_parts_count_like_text():
    with_tools = {**conversation(LONG), "tools": [{"function": {"name": "search"}}]}
    assert prefix_hashes("t", "m", with_tools)[0] != prefix_hashes("t", "m", conversation(LONG))[0]
    parts = {"messages": [{"role": "user", "content": [{"type": "text", "text": LONG}, {"type": "image_url"}]}]}
    assert prefix_hashes("t", "m", parts) == prefix_hashes("t", "m", conversation(LONG))
    assert prefix_hashes("t", "m", {"prompt": LONG}) == prefix_hashes("t", "m", {"input": LONG})


def test_a_short_prompt_belongs_nowhere_and_an_endless_one_costs_no_more():
    assert prefix_hashes("t", "m", conversation("short")) == []
    assert len(prefix_hashes("t", "m", conversation("x" * 10_000_000))) == 64


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("\ud800" * 600) | st.just("y" * 2000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["messages", "prompt", "input", "tools"]), _JSON))
def test_no_request_however_odd_breaks_it(asked):
    prefix_hashes("t", "m", asked)


def test_the_longest_known_beginning_decides():
    table = PrefixTable()
    table.note([1, 2, 3], "a")
    table.note([1, 2, 9], "b")
    assert table.preferred([1, 2, 3, 4]) == "a"
    assert table.preferred([1, 2, 8]) == "b"
    assert table.preferred([7]) is None


def test_what_was_not_used_for_longest_is_forgotten_first():
    table = PrefixTable(most_entries=3)
    table.note([1, 2, 3], "a")
    table.note([1], "a")
    table.note([4], "b")
    assert [table.preferred([one]) for one in (1, 2, 3, 4)] == ["a", None, "a", "b"]


@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_million_prompts_take_no_more_room_than_the_table_has(count):
    table = PrefixTable()
    filler = "x" * 512
    for number in range(count):
        table.note(prefix_hashes("t", "m", {"prompt": f"{number:08}{filler}"}), "a")
    assert len(table) == 131_072


def test_a_session_stays_where_it_is_and_few_move_when_a_replica_goes():
    replicas = [(f"r{number}", 1.0) for number in range(5)]
    sessions = [str(number) for number in range(2000)]
    before = {session: session_owner("t", session, replicas) for session in sessions}
    assert before == {session: session_owner("t", session, random.sample(replicas, 5)) for session in sessions}
    after = {session: session_owner("t", session, replicas[1:]) for session in sessions}
    moved = [session for session in sessions if after[session] != before[session]]
    assert {before[session] for session in moved} == {"r0"}


def test_sessions_spread_by_weight_and_by_tenant():
    replicas = [("light", 1.0), ("heavy", 3.0)]
    counts = Counter(session_owner("t", str(number), replicas) for number in range(4000))
    assert 2.5 < counts["heavy"] / counts["light"] < 3.6
    same = sum(session_owner("a", str(n), replicas) == session_owner("b", str(n), replicas) for n in range(1000))
    assert same < 800


def test_there_is_no_owner_where_there_is_no_replica():
    assert session_owner("t", "s", []) is None
