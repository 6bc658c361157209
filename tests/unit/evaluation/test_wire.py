"""Runs in the proto's words."""

from datetime import UTC, datetime

from services.evaluation.runs.store import Measurement, Run, RunStatus
from services.evaluation.wire import run_message

RUN = Run("r-1", "acme", "answers", datetime(2026, 11, 30, tzinfo=UTC), RunStatus.DONE)


def told(mean, low, high, scored):
    one = Measurement("agent", "faithfulness", "all", "all", mean, low, high, scored, 4)
    (found,) = run_message(RUN, [one]).measurements
    return found


def test_a_mean_that_is_missing_is_told_apart_from_one_of_0():
    missing, zero = told(None, None, None, 0), told(0.0, 0.0, 0.1, 5)
    assert not missing.HasField("estimate")
    assert (missing.scored_count, missing.missing_count) == (0, 4)
    assert zero.HasField("estimate")
    assert (zero.estimate.mean, zero.estimate.low, zero.estimate.high) == (0.0, 0.0, 0.1)


def test_whoever_reads_the_older_fields_finds_the_same_mean():
    found = told(0.8, 0.7, 0.9, 10)
    assert (found.mean, found.low, found.high) == (0.8, 0.7, 0.9)
    assert (found.estimate.mean, found.estimate.low, found.estimate.high) == (0.8, 0.7, 0.9)
