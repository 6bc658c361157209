from hypothesis import given
from hypothesis import strategies as st

from services.gateway.pools.capacity import Capacity
from services.gateway.pools.configuration import Shedding
from services.gateway.pools.load import Load

CALM, FULL = Load(running=10), Load(running=50, waiting=20)


def test_a_calm_server_gets_all():
    capacity = Capacity(100, Shedding())
    assert not capacity.adapt(CALM, 50)
    assert capacity.now == 100


def test_a_server_with_a_long_queue_gets_less_than_it_has_at_once():
    capacity = Capacity(100, Shedding(waiting=8))
    capacity.adapt(FULL, 60)
    assert capacity.now == 48
    capacity.adapt(FULL, 48)
    assert capacity.now == 38


def test_it_gets_more_again_bit_by_bit():
    capacity = Capacity(100, Shedding(waiting=8))
    capacity.adapt(FULL, 60)
    grown = [capacity.adapt(CALM, 10) and capacity.now for _ in range(12)]
    assert grown[:2] == [53, 58]
    assert capacity.now == 100


def test_a_changed_limit_is_in_force_at_once_but_for_a_server_that_drowns():
    capacity = Capacity(100, Shedding(waiting=8))
    capacity.configure(200, Shedding(waiting=8))
    assert capacity.now == 200
    capacity.adapt(FULL, 60)
    capacity.configure(300, Shedding(waiting=8))
    assert capacity.now == 48
    capacity.configure(20, Shedding(waiting=8))
    assert capacity.now == 20


def test_something_always_goes_through():
    capacity = Capacity(100, Shedding(waiting=8))
    for _ in range(50):
        capacity.adapt(FULL, 1)
    assert capacity.now == 6


def test_first_tokens_that_come_much_later_than_the_best_shed_where_the_server_says_nothing():
    capacity = Capacity(100, Shedding(first_token_multiple=8, first_token_floor_seconds=2))
    for _ in range(30):
        capacity.first_token(0.2)
    capacity.adapt(None, 50)
    assert capacity.now == 100
    for _ in range(30):
        capacity.first_token(4)
    capacity.adapt(None, 50)
    assert capacity.now == 40


def test_late_first_tokens_of_a_server_where_nobody_waits_are_long_prompts():
    capacity = Capacity(100, Shedding())
    for seconds in [0.2] * 30 + [20.0] * 30:
        capacity.first_token(seconds)
    capacity.adapt(CALM, 50)
    assert capacity.now == 100


def test_quick_is_quick_however_much_quicker_the_best_was():
    capacity = Capacity(100, Shedding(first_token_floor_seconds=2))
    for seconds in [0.01] * 30 + [1.0] * 30:
        capacity.first_token(seconds)
    capacity.adapt(None, 50)
    assert capacity.now == 100


def test_zero_turns_it_off():
    capacity = Capacity(100, Shedding(waiting=0, first_token_multiple=0))
    for seconds in [0.01] * 30 + [50.0] * 30:
        capacity.first_token(seconds)
    capacity.adapt(FULL, 100)
    assert capacity.now == 100


@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.floats(0, 100), st.none() | st.floats(0, 100), st.integers(0, 2000)), max_size=60),
)
def test_it_stays_between_a_sixteenth_and_all(most, history):
    capacity = Capacity(most, Shedding())
    for seconds, waiting, in_flight in history:
        capacity.first_token(seconds)
        capacity.adapt(None if waiting is None else Load(waiting=waiting), in_flight)
        assert max(1, most // 16) <= capacity.now <= most
