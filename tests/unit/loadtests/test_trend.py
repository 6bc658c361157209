import random

import pytest

from loadtests.offering.samples import Watched
from loadtests.offering.trend import growth, leaks

MIB = 2**20


def readings(rss, files=lambda at: 40, seconds=600, leases=0, seed=1):
    dice = random.Random(seed)
    return [
        Watched(float(at), "gateway", int(rss(at, dice)), files(at), leases if at == seconds else 0)
        for at in range(0, seconds + 1, 10)
    ]


def failed(watched, seconds=600):
    return [one.text for one in leaks(watched, seconds) if one.failed]


def test_noise_around_a_level_is_flat():
    assert failed(readings(lambda at, dice: (100 + dice.gauss(0, 5)) * MIB)) == []


def test_what_is_filled_at_the_start_is_no_leak():
    assert failed(readings(lambda at, dice: (50 + min(at, 140)) * MIB)) == []


def test_steady_growth_is_a_leak_and_said_with_its_numbers():
    [text] = failed(readings(lambda at, dice: (100 + at / 10 + dice.gauss(0, 3)) * MIB))
    assert text.startswith("gateway: memory from 11")
    assert "allowed 16" in text


def test_a_burst_while_a_query_runs_is_none():
    def bursts(at, dice):
        return (100 + (300 if dice.random() < 0.15 else 0)) * MIB

    assert failed(readings(bursts)) == []


def test_file_descriptors_that_are_never_closed_are_a_leak():
    assert failed(readings(lambda at, dice: 100 * MIB, files=lambda at: 40 + at // 20)) == [
        "gateway: file descriptors from 47 to 70 descriptors, growth +22.5 (at least +22.5), allowed 8"
    ]


def test_a_lease_that_is_held_at_the_end_is_a_leak():
    assert failed(readings(lambda at, dice: 100 * MIB, leases=2)) == ["2 leases are held after the last answer"]


def test_too_few_readings_are_no_proof():
    found = failed(readings(lambda at, dice: 100 * MIB)[:10], seconds=90)
    assert found[0] == "gateway: 7 readings of its memory are too few to tell; 12 are needed"


def test_nothing_watched_is_no_proof_either():
    assert failed([]) == ["no process was watched: the stack under load does not run any more"]


def test_of_a_stack_elsewhere_only_the_leases_are_judged():
    assert leaks([], 600, here=False) == []
    [only] = leaks([Watched(600.0, "gateway", leases=1)], 600, here=False)
    assert (only.failed, only.text) == (True, "1 leases are held after the last answer")


def test_growth_is_the_median_slope_times_the_time():
    assert growth([0, 1, 2, 3, 4], [0, 2, 4, 6, 100]).likely == pytest.approx(8)
