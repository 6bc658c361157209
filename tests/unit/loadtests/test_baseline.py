import pytest

from loadtests import baseline


def figure(name, peer, ratio, *, cpu=None, spread=0.05):
    found = {"name": name, "unit": "ms", "peer": {"name": peer, "p50": 1.0}}
    for kind, value in (("ratio", ratio), ("cpu_ratio", cpu)):
        if value is not None:
            found |= {kind: value, f"{kind}_low": value * (1 - spread), f"{kind}_high": value * (1 + spread)}
    return found


def verdicts(before, now):
    return {row.key: row.verdict for row in baseline.compare(baseline.ratios(before), baseline.ratios(now))}


def test_a_ratio_is_worse_when_it_lies_a_tenth_above_the_interval_of_the_baseline():
    before = [figure(name, "peer", 0.5) for name in ("same", "noise", "worse", "better")]
    now = [figure("same", "peer", 0.5), figure("noise", "peer", 0.57), figure("worse", "peer", 0.7),
           figure("better", "peer", 0.3)]  # fmt: skip
    assert verdicts(before, now) == {
        "same / peer": "same", "noise / peer": "same", "worse / peer": "worse", "better / peer": "better",
    }  # fmt: skip


def test_a_wide_interval_hides_what_may_be_noise():
    assert verdicts([figure("x", "peer", 0.5)], [figure("x", "peer", 0.7, spread=0.3)]) == {"x / peer": "same"}
    assert verdicts([figure("x", "peer", 0.5)], [figure("x", "peer", 0.7, spread=0.2)]) == {"x / peer": "worse"}
    assert verdicts([figure("x", "peer", 0.5, spread=0.3)], [figure("x", "peer", 0.7)]) == {"x / peer": "same"}


def test_time_of_the_processor_is_compared_where_both_have_it():
    before = [figure("a", "p", 0.5, cpu=0.5), figure("b", "p", 0.5, cpu=0.5)]
    now = [figure("a", "p", 5.0, cpu=0.5), figure("b", "p", 5.0)]
    assert verdicts(before, now) == {"a / p": "same", "b / p": "worse"}


def test_what_is_new_or_missing_is_said_and_is_no_regression():
    before, now = [figure("gone", "p", 0.5)], [figure("new", "p", 0.5), {"name": "alone", "unit": "ms", "p50": 1.0}]
    assert verdicts(before, now) == {"gone / p": "not measured", "new / p": "new"}


def test_peers_of_one_figure_are_told_apart():
    found = baseline.ratios([figure("x", "one", 0.5), figure("x", "other", 0.7)])
    assert {key: one["ratio"] for key, one in found.items()} == {"x / one": 0.5, "x / other": 0.7}


def test_what_was_written_is_read_again(tmp_path):
    path = tmp_path / "baseline.json"
    found = [figure("x", "one", 0.5, cpu=0.4)]
    baseline.write([found], {"machine": {"cpu": "abacus"}, "at": "2026-11-30T20:00+00:00", "load": 0.1}, path)
    said = baseline.read(path)
    assert said["machine"] == {"cpu": "abacus"}
    assert said["ratios"] == baseline.ratios(found)


def test_a_table_names_what_was_compared():
    rows = baseline.compare(baseline.ratios([figure("x", "one", 0.5)]), baseline.ratios([figure("x", "one", 0.9)]))
    head, line = baseline.table(rows).splitlines()
    assert head.split() == ["figure", "/", "peer", "compared", "baseline", "now"]
    assert "x / one" in line
    assert "0.5 (0.475 to 0.525)" in line
    assert line.endswith("worse")


def test_a_baseline_of_several_runs_holds_the_intervals_of_all():
    runs = [baseline.ratios([figure("x", "p", ratio)]) for ratio in (0.5, 0.7, 0.6)]
    runs.append(baseline.ratios([figure("seldom", "p", 1.0)]))
    found = baseline.over_runs(runs)
    assert found["x / p"] == pytest.approx({"ratio": 0.6, "ratio_low": 0.475, "ratio_high": 0.735})
    assert found["seldom / p"]["ratio"] == 1.0
