import json

import pytest

from loadtests import baseline
from loadtests.bench import NAMES, QUICK
from loadtests.bench_check import check, write
from tests.unit.loadtests.test_baseline import figure


class Measuring:
    """Answers with the next of what was measured, and remembers what was asked for."""

    def __init__(self, *turns):
        self.turns, self.asked = list(turns), []

    def __call__(self, wanted, seconds):
        self.asked.append(set(wanted))
        return self.turns.pop(0)


@pytest.fixture
def committed(tmp_path):
    path = tmp_path / "baseline.json"
    found = [figure("sql_guard", "sqlglot.parse", 2.0), figure("gateway_added", "Envoy", 3.0)]
    baseline.write([found], {"machine": {"cpu": "abacus"}, "at": "2026-11-30T20:00+00:00", "load": 0.1}, path)
    return path


def test_what_stayed_the_same_passes_and_is_measured_once(committed, capsys):
    measuring = Measuring([figure("sql_guard", "sqlglot.parse", 2.1), figure("gateway_added", "Envoy", 1.0)])
    assert check(measuring, committed) == 0
    assert measuring.asked == [set(QUICK)]
    said = capsys.readouterr().out
    assert "better" in said
    assert "The baseline was made on abacus." in said


def test_what_is_worse_is_measured_again_alone_and_fails_if_it_stays_so(committed, capsys):
    slow, right = figure("sql_guard", "sqlglot.parse", 4.0), figure("gateway_added", "Envoy", 3.0)
    measuring = Measuring([slow, right], [slow])
    assert check(measuring, committed) == 1
    assert measuring.asked[1] == {"sql_guard"}
    assert "make bench-baseline" in capsys.readouterr().out


def test_a_moment_of_noise_does_not_fail(committed):
    slow, quick = figure("sql_guard", "sqlglot.parse", 4.0), figure("sql_guard", "sqlglot.parse", 2.0)
    right = figure("gateway_added", "Envoy", 3.0)
    assert check(Measuring([slow, right], [quick]), committed) == 0


def test_what_could_not_be_measured_is_named_and_fails_unless_that_is_allowed(committed, capsys):
    found = [figure("sql_guard", "sqlglot.parse", 2.0)]
    assert check(Measuring(found), committed) == 1
    assert "Not measured: gateway_added / Envoy." in capsys.readouterr().out
    assert check(Measuring(found), committed, allow_missing=True) == 0
    assert "not measured" in capsys.readouterr().out
    assert check(Measuring([]), committed, allow_missing=True) == 1


def test_peers_of_gigabytes_may_be_missing(tmp_path):
    path = tmp_path / "baseline.json"
    small, large = figure("sql_guard", "sqlglot.parse", 2.0), figure("cross_encoder_int8", "Infinity", 0.5)
    about = {"machine": {"cpu": "abacus"}, "at": "2026-11-30T20:00+00:00", "load": 0.1}
    baseline.write([[small, large]], about, path)
    assert check(Measuring([small]), path) == 0


def test_the_baseline_is_renewed_only_by_something(committed):
    before = committed.read_text()
    assert write(Measuring([], [], []), committed) == 1
    assert committed.read_text() == before
    one, other = ([figure("sql_guard", "sqlglot.parse", ratio)] for ratio in (1.0, 1.2))
    assert write(Measuring(one, other, []), committed) == 0
    assert json.loads(committed.read_text())["ratios"].keys() == {"sql_guard / sqlglot.parse"}


def test_the_committed_baseline_holds_figures_of_the_quick_benches_only():
    prefixes = tuple(prefix for names in QUICK.values() for prefix in names)
    assert baseline.read()["ratios"].keys()
    assert all(key.startswith(prefixes) for key in baseline.read()["ratios"])
    assert QUICK.keys() <= set(NAMES)
