"""The gate: shut for what is shown to be worse or went missing, open for no change."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.evaluation.golden import sets
from services.evaluation.runs.baseline import Baseline, BrokenBaseline, Origin, baseline_of, scores_of
from services.evaluation.runs.gate import Current, check
from services.evaluation.runs.record import Scored
from services.evaluation.score import Score, Status
from services.evaluation.tools.assignment import BY_ROWS

ORIGIN = Origin("small", 1, "f" * 64, "dev", "", "sabueso evals run small")
IDS = [f"q{place}" for place in range(30)]


def current(values, metric="ndcg@10", **other):
    scores = {"agent": {metric: {key: Score(metric, value) for key, value in values.items()}}}
    return replace(Current("small", "f" * 64, "", scores, {"agent": list(values)}), **other)


@pytest.fixture
def baseline():
    scored = [Scored(key, "agent", Score("ndcg@10", 1.0)) for key in IDS]
    return baseline_of(ORIGIN, scored, {"agent": IDS})


def test_no_change_passes(baseline):
    found = check(baseline, current(dict.fromkeys(IDS, 1.0)), {})
    assert found.is_open
    assert found.compared["agent"][0].paired.p_value == 1


def test_a_drop_that_is_shown_is_caught_and_names_metric_difference_interval_and_questions(baseline):
    found = check(baseline, current({key: float(place > 9) for place, key in enumerate(IDS)}), {})
    assert not found.is_open
    (fault,) = found.faults
    assert fault.what == "agent: ndcg@10"
    assert "1.000 → 0.667, -0.333 [" in fault.why
    assert "q0" in fault.why


def test_no_question_of_a_test_half_is_named(baseline):
    sealed = baseline.model_copy(update={"half": "test"})
    now = current({key: float(place > 9) for place, key in enumerate(IDS)})
    (fault,) = check(sealed, now, {}).faults
    assert fault.why.endswith(": 10 of the test half")


def test_a_drop_of_one_question_is_chance_as_far_as_can_be_shown(baseline):
    assert check(baseline, current({key: float(place > 0) for place, key in enumerate(IDS)}), {}).is_open


def test_a_drop_of_five_questions_of_thirty_is_shown_since_only_a_loss_is_asked_about(baseline):
    now = current({key: float(place > 4) for place, key in enumerate(IDS)})
    assert not check(baseline, now, {}).is_open


def test_what_is_not_gated_does_not_shut_the_gate(baseline):
    nothing = current(dict.fromkeys(IDS, 0.0))
    assert not check(baseline, nothing, {}).is_open
    assert check(baseline, nothing, {}, metrics=["faithfulness"]).is_open


def test_a_drop_within_the_tolerance_passes(baseline):
    now = current({key: 1.0 if place > 9 else 0.97 for place, key in enumerate(IDS)})
    assert not check(baseline, now, {}).is_open
    assert check(baseline, now, {}, tolerance=0.02).is_open


def test_a_rise_passes():
    scored = [Scored(key, "agent", Score("ndcg@10", 0.0)) for key in IDS]
    low = baseline_of(ORIGIN, scored, {"agent": IDS})
    assert check(low, current(dict.fromkeys(IDS, 1.0)), {}).is_open


def test_answers_that_went_missing_do_not_pass_for_good_ones(baseline):
    found = check(baseline, current(dict.fromkeys(IDS[:20], 1.0)), {})
    assert [one.what for one in found.faults] == ["agent: answers"]
    assert "10 of 30 questions failed" in found.faults[0].why


def test_values_that_the_judge_lost_shut_the_gate_and_those_of_refusals_do_not(baseline):
    for status, is_open in ((Status.JUDGE_FAILED, False), (Status.NO_CLAIMS, True)):
        now = current(dict.fromkeys(IDS, 1.0))
        for key in IDS[:5]:
            now.scores["agent"]["ndcg@10"][key] = Score("ndcg@10", None, status)
        assert check(baseline, now, {}).is_open is is_open


def test_a_metric_or_a_variant_that_is_not_there_any_more_shuts_the_gate(baseline):
    other = current(dict.fromkeys(IDS, 1.0), metric="faithfulness")
    assert "30 of 30 values are missing" in check(baseline, other, {}).faults[0].why
    nothing = current({}, scores={})
    assert check(baseline, nothing, {}).faults[0].why == "was not run"


def test_another_set_or_another_judge_is_not_compared(baseline):
    same = dict.fromkeys(IDS, 1.0)
    assert "other items" in check(baseline, current(same, fingerprint="0" * 64), {}).faults[0].why
    assert "judged by big, the baseline by nobody" in check(baseline, current(same, judge="big"), {}).faults[0].why


def test_what_was_judged_by_other_prompts_is_not_compared(baseline):
    same = dict.fromkeys(IDS, 1.0)
    kept = baseline.model_copy(update={"judge": "big", "prompts": {"claims.en": "a1", "claims.es": "b1"}})
    now = current(same, judge="big", prompts={"claims.en": "a2", "support.en": "c1"})
    assert "others than those of the baseline (claims.en)" in check(kept, now, {}).faults[0].why
    assert check(kept, replace(now, prompts={"claims.en": "a1"}), {}).is_open


def test_calls_are_not_compared_where_statements_were_judged_by_rows_on_one_side_only(baseline):
    scores = {**baseline.scores["agent"], "call_accuracy": {"q0": 1.0}}
    calls = baseline.model_copy(update={"scores": {"agent": scores}})
    now = current(dict.fromkeys(IDS, 1.0), statements=BY_ROWS)
    now.scores["agent"]["call_accuracy"] = {"q0": Score("call_accuracy", 0.0)}
    found = check(calls, now, {})
    assert [one.what for one in found.faults] == ["agent: call_accuracy"]
    assert "statements are by rows, in the baseline not judged" in found.faults[0].why
    assert [one.metric for one in found.compared["agent"]] == ["ndcg@10"]
    same = calls.model_copy(update={"statements": BY_ROWS})
    assert "call_accuracy" in [one.metric for one in check(same, now, {}).compared["agent"]]


def test_a_baseline_is_read_as_it_was_written(tmp_path, baseline):
    path = tmp_path / "evals" / "baseline.json"
    baseline.write(path)
    assert Baseline.read(path) == baseline
    assert scores_of(Baseline.read(path).scores["agent"])["ndcg@10"]["q0"] == Score("ndcg@10", 1.0)


@pytest.mark.parametrize("text", ["", "{}", '{"scores": []}', "not JSON"])
def test_a_file_that_is_no_baseline_is_named(tmp_path, text):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(BrokenBaseline, match=r"baseline\.json"):
        Baseline.read(path)


@pytest.mark.parametrize("name", ["answers", "tools"])
def test_the_committed_baseline_is_of_the_set_as_it_is(name):
    kept = Baseline.read(Path("tests/data/evals/baseline") / f"{name}.json")
    assert kept.fingerprint == sets.read(Path("demo/evals") / name).fingerprint
