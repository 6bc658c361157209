"""The numbers of a report against what was planted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.measuring import percentile
from loadtests.report import figures
from loadtests.report.records import Offered, Run, Sample, Watched
from tests.unit.loadtests.report.runs import run, sample, soaked


def offered(samples, **changed):
    return Offered(run=Run.model_validate(run(**changed)), samples=[Sample.model_validate(one) for one in samples])


def figures_of(samples):
    return next(one for one in figures.figures_of(offered(samples)) if one.scenario.name == "naive RAG")


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_a_percentile_is_the_one_that_the_verdict_judges_by(values):
    found = figures.spread(values)
    assert [found.p50, found.p95, found.p99] == [percentile(values, percent) for percent in (50, 95, 99)]


def test_each_request_is_counted_once_as_answered_failed_or_refused():
    found = figures_of(
        [
            sample(),
            sample(degraded=True),
            sample(problem="wrong number"),
            sample(refused=True, status=429),
            # A limit's refusal is no failure, whatever the client made of it.
            sample(refused=True, status=503, problem="HTTP 503"),
        ]
    )
    counts = (found.planned_count, found.answered_count, found.failed_count, found.refused_count, found.degraded_count)
    assert counts == (5, 2, 1, 2, 1)


def test_what_failed_or_was_refused_is_in_no_percentile():
    found = figures_of([sample(seconds=0.2), sample(seconds=9, problem="late"), sample(seconds=0.001, refused=True)])
    assert found.answer.p99 == pytest.approx(200)


def test_a_broken_budget_is_known_by_its_percentile():
    found = figures_of([sample(seconds=0.28)])
    assert found.broken("answer", "p50")
    assert not found.broken("answer", "p95")
    assert not found.broken("first_event", "p50")  # it has none


def test_where_nothing_was_answered_there_are_no_percentiles():
    found = figures_of([sample(problem="no")])
    assert (found.answer, found.first_event, found.stages) == (None, None, {})
    assert not found.broken("answer", "p95")


def test_stages_leave_out_their_sum_and_name_what_the_caller_waited_beside_them():
    stages = figures_of([sample(seconds=0.2, stages_ms={"model": 150.0, "tools": 20.0, "total": 170.0})]).stages
    assert stages == pytest.approx({"model": 150, "tools": 20, figures.REST: 30})


def test_a_stage_that_only_some_answers_have_is_a_mean_over_all_that_told_any():
    stages = figures_of([sample(stages_ms={"model": 100.0}), sample(stages_ms={"tools": 50.0}), sample(stages_ms={})])
    assert stages.stages["model"] == 50
    assert stages.stages["tools"] == 25


@pytest.mark.parametrize(("seconds", "width"), [(12, 1), (180, 1), (181, 2), (1800, 10), (86400, 600)])
def test_a_time_line_has_a_point_a_second_until_those_are_too_many(seconds, width):
    assert figures.bin_seconds(offered([], seconds=seconds)) == width


def test_a_time_line_tells_for_each_second_what_was_due_in_it():
    first, second = figures_of([sample(due=0.2), sample(due=0.9, problem="no"), sample(due=5.1, refused=True)]).points
    assert (first.at, first.failed_count, first.refused_count) == (0.5, 1, 0)
    assert first.p95 == pytest.approx(200)
    assert (second.at, second.p95, second.refused_count) == (5.5, None, 1)


def test_problems_are_told_with_how_often_they_came_the_most_frequent_first():
    samples = [sample(problem="rare"), *[sample(problem="often")] * 3, sample(refused=True, problem="429")]
    assert figures.problems_of(offered(samples)) == [("naive RAG", "often", 3), ("naive RAG", "rare", 1)]


def test_a_noisy_neighbour_is_told_apart_from_the_others():
    samples = [sample(tenant="quiet"), sample(tenant="noisy", refused=True), sample(tenant="noisy")]
    noisy, quiet = figures.tenants_of(offered(samples))
    assert (noisy.name, noisy.planned_count, noisy.refused_count) == ("noisy", 2, 1)
    assert (quiet.refused_count, quiet.answer.p50) == (0, pytest.approx(200))
    assert figures.tenants_of(offered([sample()])) == []


def test_processes_are_told_by_what_they_had_at_the_beginning_and_at_the_end():
    grown, flat = figures.processes_of([Watched.model_validate(one) for one in soaked()])
    begin, end = figures.ends(grown.rss_mib)
    assert (grown.name, begin, end) == ("gateway", pytest.approx(202, abs=2), pytest.approx(257, abs=2))
    assert figures.ends(flat.rss_mib) == (200, 200)
    assert figures.ends([]) is None
