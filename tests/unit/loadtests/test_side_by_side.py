import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.side_by_side import Figure, Peer, Took, figures_beside, measure, ratio_of, take_turns


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
        "ratio_low": 0.5, "ratio_high": 0.5,
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


def test_a_ratio_lies_in_its_interval_and_more_rounds_narrow_it():
    dice = np.random.default_rng(1)
    wide, narrow = (
        ratio_of(dice.normal(2, 0.3, n).tolist(), dice.normal(4, 0.3, n).tolist(), paired=True) for n in (12, 1200)
    )
    for ratio in (wide, narrow):
        assert ratio.low <= ratio.value <= ratio.high
    assert narrow.low < 0.5 < narrow.high
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3


def test_noise_that_both_met_does_not_widen_a_ratio_of_rounds():
    noise = np.random.default_rng(2).exponential(10, 60) + 1
    ratio = ratio_of((0.5 * noise).tolist(), noise.tolist(), paired=True)
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.5, 0.5, 0.5))
    apart = ratio_of((0.5 * noise).tolist(), noise.tolist())
    assert apart.low < 0.45 < 0.55 < apart.high


def test_what_both_have_in_common_is_taken_off_before():
    assert ratio_of([3.0] * 5, [5.0] * 7, less=[1.0] * 3).value == 0.5


@settings(max_examples=25)
@given(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=30), st.lists(st.floats(0.1, 1e3), min_size=1, max_size=30))
def test_an_interval_holds_what_was_measured_or_more_extreme_rounds(values, peer_values):
    ratio = ratio_of(values, peer_values)
    assert min(values) / max(peer_values) <= ratio.low <= ratio.high <= max(values) / min(peer_values)


def test_there_is_no_ratio_to_nothing():
    with pytest.raises(ValueError, match="no ratio"):
        ratio_of([1.0], [])


async def test_many_take_turns_forwards_and_backwards():
    order = []

    def of(name, value):
        async def run() -> float:
            order.append(name)
            return value

        return run

    times = await take_turns({"a": of("a", 1.0), "b": of("b", 2.0), "c": of("c", 4.0)}, rounds=2)
    assert order[-6:] == ["a", "b", "c", "c", "b", "a"]
    figures = figures_beside("x", times, "a")
    assert [(figure.peer, figure.fields()["ratio"]) for figure in figures] == [("b", 0.5), ("c", 0.25)]


async def test_time_of_the_processor_is_measured_where_the_work_is_done_here():
    async def sleep() -> None:
        await asyncio.sleep(0.02)

    async def of_a_worker() -> Took:
        return Took(4.0, 2.0)

    peer = Peer("worker", of_a_worker)
    here = await measure("x", sleep, rounds=3, peer=peer, in_process=True)
    assert all(worked < passed for passed, worked in zip(here.values, here.cpu, strict=True))
    assert here.peer_cpu == [2.0, 2.0, 2.0]
    assert {"cpu_p50", "cpu_ratio", "cpu_ratio_low", "cpu_ratio_high"} < here.fields().keys()
    elsewhere = await measure("x", sleep, rounds=3, peer=peer)
    assert not elsewhere.cpu
    assert "cpu_ratio" not in elsewhere.fields()
