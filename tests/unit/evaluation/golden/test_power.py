"""How many pairs show which difference: formulas against simulation, and against each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluation.golden import power
from services.evaluation.golden.power import Design

differences = st.floats(0.01, 0.5)


def simulated_shares(pairs, difference, discordant, runs=4000):
    """Share of runs in which McNemar's test says something, by drawing the discordant questions."""
    random = np.random.default_rng(3)
    better, worse = (discordant + difference) / 2, (discordant - difference) / 2
    drawn = random.multinomial(pairs, [better, worse, 1 - discordant], size=runs)
    gained, lost = drawn[:, 0], drawn[:, 1]
    # The statistic of the formula: without a correction for continuity.
    statistic = np.abs(gained - lost) / np.sqrt(np.maximum(gained + lost, 1))
    return float((statistic > 1.959964).mean())


def simulated_means(pairs, difference, deviation, runs=4000):
    random = np.random.default_rng(4)
    drawn = random.normal(difference, deviation, size=(runs, pairs))
    statistic = np.abs(drawn.mean(1)) / (drawn.std(1, ddof=1) / math.sqrt(pairs))
    # The 97.5 % point of Student's t with 33 degrees of freedom or more is below this one.
    return float((statistic > 2.035).mean())


@pytest.mark.parametrize(("difference", "discordant"), [(0.05, 0.1), (0.05, 0.2), (0.1, 0.2), (0.1, 0.3), (0.03, 0.1)])
def test_as_many_pairs_as_the_formula_says_show_the_difference_in_four_of_five_runs(difference, discordant):
    pairs = power.pairs_for_shares(difference, discordant)
    assert simulated_shares(pairs, difference, discordant) == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize(("difference", "deviation"), [(0.05, 0.2), (0.1, 0.2), (0.05, 0.3)])
def test_as_many_scores_as_the_formula_says_show_the_difference_in_four_of_five_runs(difference, deviation):
    pairs = power.pairs_for_means(difference, deviation)
    assert simulated_means(pairs, difference, deviation) == pytest.approx(0.8, abs=0.04)


@given(differences, st.floats(0.51, 1))
def test_the_power_of_the_pairs_that_are_needed_is_the_power_that_was_asked_for(difference, discordant):
    pairs = power.pairs_for_shares(difference, discordant)
    assert power.power_for_shares(pairs, difference, discordant) >= 0.8 - 1e-9
    if pairs > 1:
        assert power.power_for_shares(pairs - 1, difference, discordant) < 0.8 + 1e-9


@given(differences, st.floats(0.05, 0.5))
def test_the_same_holds_for_means(difference, deviation):
    pairs = power.pairs_for_means(difference, deviation)
    assert power.power_for_means(max(pairs, 2), difference, deviation) >= 0.8 - 1e-9


@given(differences, st.floats(0.51, 1), st.integers(10, 5000))
def test_more_pairs_larger_differences_and_fewer_disagreements_have_more_power(difference, discordant, pairs):
    before = power.power_for_shares(pairs, difference, discordant)
    assert 0 <= before <= 1
    assert power.power_for_shares(pairs + 10, difference, discordant) >= before
    assert power.power_for_shares(pairs, difference / 2, discordant) <= before + 1e-12


def test_the_sign_of_a_difference_does_not_matter():
    assert power.pairs_for_shares(-0.05, 0.2) == power.pairs_for_shares(0.05, 0.2)


def test_a_stricter_test_needs_more_pairs():
    assert power.pairs_for_shares(0.05, 0.2, Design(0.01, 0.9)) > power.pairs_for_shares(0.05, 0.2)
    assert power.pairs_for_means(0.05, 0.2, Design(0.01, 0.9)) > power.pairs_for_means(0.05, 0.2)


def test_the_least_difference_is_the_one_that_needs_so_many_pairs():
    least = power.least_difference(626, 0.2)
    assert least == pytest.approx(0.05, abs=0.0005)
    assert power.least_difference(3, 0.2) == math.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: power.pairs_for_shares(0, 0.2),
        lambda: power.pairs_for_shares(0.3, 0.2),
        lambda: power.pairs_for_shares(0.3, 1.2),
        lambda: power.pairs_for_means(0.1, 0),
        lambda: power.power_for_shares(0, 0.1, 0.2),
        lambda: power.power_for_means(1, 0.1, 0.2),
    ],
)
def test_what_means_nothing_is_refused(call):
    with pytest.raises(ValueError, match="0"):
        call()


def test_the_table_has_a_row_for_each_difference():
    lines = power.table([0.05, 0.15]).splitlines()
    assert lines[2] == "| 0.05 | 312 | 626 | 940 | 128 | 285 |"
    assert lines[3].startswith("| 0.15 | – | 68 |")
