import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.measuring import Figure, Peer, measure, percentile

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200)


def test_a_percentile_is_the_nearest_rank():
    hundred = [float(n) for n in range(100, 0, -1)]
    assert [percentile(hundred, p) for p in (1, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]
    assert percentile([3.0, 1.0, 2.0], 50) == 2
    assert percentile([1.0, 2.0], 50) == 1
    assert percentile([7.0], 99) == 7


def test_there_is_no_percentile_of_nothing():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@given(NUMBERS, st.floats(0, 100))
def test_a_percentile_was_measured_and_is_not_exceeded_by_its_share(values, percent):
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-9


async def test_a_run_and_its_peer_take_turns_in_going_first():
    order = []

    async def ours() -> float:
        order.append("ours")
        return 2.0

    async def theirs() -> float:
        order.append("theirs")
        return 4.0

    figure = await measure("x", ours, rounds=4, peer=Peer("theirs", theirs))
    assert order[-8:] == ["ours", "theirs", "theirs", "ours"] * 2
    assert figure.fields() == {
        "name": "x", "unit": "ms", "p50": 2.0, "p95": 2.0, "p99": 2.0, "n": 4,
        "peer": {"name": "theirs", "p50": 4.0, "p95": 4.0, "p99": 4.0}, "ratio": 0.5,
    }  # fmt: skip
    assert figure.minus_peer("added").values == [-2.0] * 4
    assert figure.of_peer("them").fields()["p50"] == 4.0


async def test_without_time_there_are_still_three_rounds():
    async def nothing() -> None:
        return None

    figure = await measure("x", nothing, rounds=1000, seconds=0)
    assert len(figure.values) == 3
    assert all(0 <= value < 100 for value in figure.values)
    assert "peer" not in figure.fields()


def test_extra_fields_come_last():
    assert list(Figure("x", "s", [1.0]).fields(recall_at_10=1.0))[-1] == "recall_at_10"
