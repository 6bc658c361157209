"""Better, worse, or not shown."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.evaluation.runs.compare import Verdict, compare, families_of, holm, needed
from services.evaluation.score import Score, Status
from tests.unit.evaluation.runs.world import CANTEEN, GARANTIA, WARRANTY


def scores(metric, values):
    return {metric: {f"q{place}": Score(metric, value) for place, value in enumerate(values)}}


def only(found):
    assert len(found) == 1
    return found[0]


def test_no_change_is_not_shown_and_needs_no_number_of_pairs():
    same = scores("recall@10", [0.0, 1.0, 0.5] * 10)
    found = only(compare(same, same, {}))
    assert (found.verdict, found.paired.p_value, found.changed, found.needed_units) == (
        Verdict.NOT_SHOWN,
        1.0,
        (),
        None,
    )


def test_a_drop_of_many_questions_is_worse_and_names_them_worst_first():
    before = scores("recall@10", [1.0] * 30)
    after = scores("recall@10", [0.0] * 8 + [0.5] * 2 + [1.0] * 20)
    found = only(compare(before, after, {}))
    assert found.verdict is Verdict.WORSE
    assert found.paired.difference.mean == pytest.approx(-0.3)
    assert found.paired.difference.high < 0
    assert found.changed[:2] == ("q0", "q1")
    assert set(found.changed[-2:]) == {"q8", "q9"}


def test_a_rise_is_better_but_for_a_metric_of_which_less_is_better():
    low, high = [0.0] * 10 + [0.5] * 10, [0.4] * 10 + [0.9] * 10
    assert only(compare(scores("a", low), scores("a", high), {})).verdict is Verdict.BETTER
    name = "noise_sensitivity"
    assert only(compare(scores(name, low), scores(name, high), {})).verdict is Verdict.WORSE


def test_a_difference_that_is_not_shown_says_how_many_pairs_would_show_it():
    before = scores("a", [0.0, 1.0] * 10)
    after = scores("a", [1.0, 1.0, 0.0] + [0.0, 1.0] * 8 + [1.0])
    found = only(compare(before, after, {}))
    assert found.verdict is Verdict.NOT_SHOWN
    assert found.needed_units is not None
    assert found.needed_units > 20
    assert needed([0.0, 0.0]) is None
    assert needed([0.3]) is None


def test_a_question_and_its_translation_are_one_pair():
    before = {"a": {one: Score("a", 1.0) for one in ("x-en", "x-es", "y-en", "y-es")}}
    after = {"a": {one: Score("a", 0.0) for one in ("x-en", "x-es", "y-en", "y-es")}}
    families = {"x-en": "x", "x-es": "x", "y-en": "y", "y-es": "y"}
    found = only(compare(before, after, families))
    assert (found.unit_count, found.item_count) == (2, 4)
    assert families_of([WARRANTY, GARANTIA, CANTEEN]) == {
        "warranty-en": "family warranty",
        "warranty-es": "family warranty",
        "canteen-en": "canteen-en",
    }


def test_what_has_a_value_on_one_side_only_is_in_no_mean_and_is_counted():
    before = scores("a", [1.0, 0.0, 1.0])
    after = {"a": {**scores("a", [1.0, 0.0])["a"], "q2": Score("a", None, Status.JUDGE_FAILED)}}
    found = only(compare(before, after, {}))
    assert (found.first, found.second, found.paired.lost_count) == (0.5, 0.5, 1)
    assert compare(before, {"a": {"q9": Score("a", 1.0)}}, {}) == []
    assert compare(before, {}, {}) == []


def test_many_metrics_make_chance_findings_no_verdicts():
    draw = random.Random(3)
    before, after = {}, {}
    for metric in range(24):
        before |= scores(f"m{metric}", [draw.random() for _ in range(24)])
        after |= scores(f"m{metric}", [draw.random() for _ in range(24)])
    found = compare(before, after, {})
    assert any(one.paired.p_value < 0.05 for one in found)
    assert all(one.verdict is Verdict.NOT_SHOWN for one in found)


def test_holm_is_the_worked_example_of_textbooks():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(values):
    adjusted = holm(values)
    assert all(0 <= one <= 1 and one >= raw for one, raw in zip(adjusted, values, strict=True))
    ranked = [adjusted[place] for place in sorted(range(len(values)), key=lambda place: values[place])]
    assert ranked == sorted(ranked)


@settings(max_examples=10)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=20))
def test_swapping_the_two_turns_the_verdict_round(pairs):
    one, two = scores("a", [a for a, _ in pairs]), scores("a", [b for _, b in pairs])
    there, back = only(compare(one, two, {})), only(compare(two, one, {}))
    assert there.paired.difference.mean == pytest.approx(-back.paired.difference.mean, abs=1e-9)
    turned = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER, Verdict.NOT_SHOWN: Verdict.NOT_SHOWN}
    near_the_edge = abs(there.p_adjusted - 0.05) < 0.02 or there.p_adjusted < 0.05
    assert back.verdict is turned[there.verdict] or near_the_edge
