"""Two runs beside each other: what is shown, and what chance alone does not show."""

import random

import pytest

from loadtests.report import comparison
from loadtests.report.comparison import Verdict
from loadtests.report.records import Offered, Run, Sample
from tests.unit.loadtests.report.runs import many, run, sample


def offered(samples, **changed):
    return Offered(run=Run.model_validate(run(**changed)), samples=[Sample.model_validate(one) for one in samples])


def compare(first, second):
    """With fewer resamples than a reader gets."""
    return comparison.compare(first, second, resamples=400)


def naive(**options):
    """One scenario, as each takes its time."""
    return [one for one in many(**options) if one["scenario"] == "naive RAG"]


def verdicts(first, second):
    rows = compare(offered(first), offered(second)).rows
    return {(row.scenario, row.what, row.percent): row.verdict for row in rows}


@pytest.fixture(scope="module")
def before():
    return naive(seed=1)


@pytest.mark.parametrize(("factor", "verdict"), [(1.4, Verdict.WORSE), (0.6, Verdict.BETTER)])
def test_a_real_difference_is_shown_with_its_sign(before, factor, verdict):
    found = verdicts(before, naive(seed=2, slower=factor))
    assert found["naive RAG", "answer", 50] is verdict
    assert found["naive RAG", "answer", 95] is verdict
    assert found["naive RAG", "first event", 50] is Verdict.NOT_SHOWN


def test_the_same_run_twice_shows_nothing(before):
    assert set(verdicts(before, before).values()) == {Verdict.NOT_SHOWN}


def test_the_interval_holds_the_planted_difference(before):
    row = next(one for one in compare(offered(before), offered(naive(seed=3, slower=1.4))).rows if one.percent == 50)
    assert row.low < 0.4 * 200 < row.high
    assert row.low < row.difference < row.high


def test_a_handful_of_answers_is_too_few_for_a_verdict():
    few = [sample(due=second) for second in range(10)]
    assert set(verdicts(few, few).values()) == {Verdict.TOO_FEW}


def test_seconds_that_were_slow_as_a_whole_make_the_interval_wider():
    """Thirty answers that waited for one and the same pause are one event, not thirty."""
    dice = random.Random(1)
    alone, together = [], []
    for second in range(30):
        of_all = dice.expovariate(10)
        for place in range(10):
            due = second + place / 10
            alone.append(sample(due=due, seconds=0.2 + dice.expovariate(10)))
            together.append(sample(due=due, seconds=0.2 + of_all))

    def width(samples):
        row = compare(offered(samples), offered(samples)).rows[0]
        return row.high - row.low

    assert width(together) > 1.5 * width(alone)


def test_shares_of_what_failed_and_was_refused_stand_beside_each_other():
    first = [sample(), sample(problem="no"), sample(refused=True), sample()]
    (shares,) = compare(offered(first, scenarios=[]), offered([sample()], scenarios=[])).shares
    assert (shares.first_failed, shares.first_refused) == (0.25, 0.25)
    assert (shares.second_failed, shares.second_refused) == (0, 0)


def test_what_makes_two_runs_unlike_each_other_is_said():
    other = {"cores": 8, "memory_gib": 64, "cpu": "Epyc"}
    rates = [{"name": "naive RAG", "planned_per_second": 50}]
    found = compare(
        offered([sample()]), offered([sample()], file="soak", profile="h100-tp2", machine=other, scenarios=rates)
    )
    assert [note.split()[1] for note in found.notes[:3]] == ["file", "profile", "machine"]
    assert found.notes[3] == "naive RAG: 5 requests a second were planned, then 50."
    assert found.only_in_one == ["SQL and documents in parallel", "with web search"]
