import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.events import PlanStep
from services.orchestrator.planning.graph import MAX_STEPS, BadPlan, Draft, graph, levels

ALL = ("documents", "sql", "web")


def drafts(*rows):
    """(id, question, depends_on …)"""
    return [Draft(name, question, "", tuple(needs)) for name, question, *needs in rows]


def shape(steps):
    return [(step.id, step.question, step.depends_on) for step in steps]


def test_steps_are_numbered_in_an_order_that_can_run():
    steps = graph(drafts(("b", "Who?", "a"), ("a", "What?")), ALL)
    assert shape(steps) == [("s1", "What?", ()), ("s2", "Who?", ("s1",))]


def test_a_specialist_that_is_not_there_becomes_all_tools():
    steps = graph([Draft("a", "One?", "web"), Draft("b", "Two?", " SQL "), Draft("c", "Three?", "astrology")], ("sql",))
    assert [step.specialist for step in steps] == ["", "sql", ""]


def test_a_question_asked_twice_is_one_step_that_waits_for_what_both_wait_for():
    steps = graph(
        drafts(("a", "A?"), ("b", "B?"), ("c", "The same?", "a"), ("d", "the  same", "b"), ("e", "E?", "d")), ALL
    )
    assert shape(steps) == [
        ("s1", "A?", ()),
        ("s2", "B?", ()),
        ("s3", "The same?", ("s1", "s2")),
        ("s4", "E?", ("s3",)),
    ]


def test_a_step_that_depends_on_itself_does_not():
    assert shape(graph(drafts(("a", "A?", "a")), ALL)) == [("s1", "A?", ())]


def test_steps_of_one_id_that_nobody_waits_for_are_told_apart():
    assert shape(graph(drafts(("a", "A?"), ("a", "B?"), ("", "C?")), ALL)) == [
        ("s1", "A?", ()),
        ("s2", "B?", ()),
        ("s3", "C?", ()),
    ]


def test_a_step_without_a_question_that_nobody_waits_for_is_left_out():
    assert shape(graph(drafts(("a", "A?"), ("b", " ?! ")), ALL)) == [("s1", "A?", ())]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "has no steps"),
        ([("a", "...")], "no step of the plan has a question"),
        ([("a", "A?", "z")], "depends on `z`, which is no step"),
        ([("a", "A?"), ("a", "B?"), ("c", "C?", "a")], "several steps have the id `a`"),
        ([("a", ""), ("b", "B?", "a")], "step `a` has no question"),
        ([("a", "A?", "b"), ("b", "B?", "a")], "circle"),
        ([(str(i), f"Question {i}?") for i in range(MAX_STEPS + 1)], "7 steps; at most 6"),
        ([(str(i), f"Question {i}?") for i in range(1000)], "1000 steps; at most 6"),
        ([("a", "long " * 400)], "longer than 1000 characters"),
    ],
)
def test_what_cannot_be_mended_is_refused_with_a_reason(rows, complaint):
    with pytest.raises(BadPlan, match=re.escape(complaint)):
        graph(drafts(*rows), ALL)


def test_questions_that_are_one_make_no_circle_of_two():
    assert shape(graph(drafts(("a", "Same?", "b"), ("b", "same")), ALL)) == [("s1", "Same?", ())]


def test_a_new_plan_goes_on_from_the_one_that_has_run():
    earlier = (PlanStep("s1", "A?"), PlanStep("s2", "B?"))
    steps = graph(drafts(("s1x", "C?", "s2"), ("y", "b"), ("z", "D?", "y")), ALL, earlier)
    assert shape(steps) == [("s3", "C?", ("s2",)), ("s4", "D?", ("s2",))]


def test_a_new_plan_that_asks_nothing_new_is_empty():
    assert graph(drafts(("s2", "a ?")), ALL, (PlanStep("s1", "A?"),)) == ()
    assert graph([], ALL, (PlanStep("s1", "A?"),)) == ()


def test_levels_count_what_must_run_one_after_the_other():
    steps = graph(drafts(("a", "A?"), ("b", "B?", "a"), ("c", "C?", "b"), ("d", "D?")), ALL)
    assert {step.question: levels(steps)[step.id] for step in steps} == {"A?": 3, "B?": 2, "C?": 1, "D?": 1}


names = st.sampled_from(["a", "b", "c", "d", " a", "", "s1", "s9"])
questions = st.one_of(st.sampled_from(["A?", "a", "B?", "C?", "", "¿?"]), st.text(max_size=12))
drafted = st.lists(
    st.builds(Draft, names, questions, st.sampled_from(["", "sql", "x"]), st.lists(names, max_size=4).map(tuple)),
    max_size=9,
)
before = st.sampled_from([(), (PlanStep("s1", "A?"),), (PlanStep("s1", "Z?"), PlanStep("s2", "B?", "", ("s1",)))])


@given(drafted, before)
def test_a_plan_that_is_accepted_can_always_run(plan, earlier):
    try:
        steps = graph(plan, ALL, earlier)
    except BadPlan:
        return
    assert len(steps) <= MAX_STEPS
    assert [step.id for step in steps] == [f"s{len(earlier) + 1 + i}" for i in range(len(steps))]
    done = {step.id for step in earlier}
    for step in steps:
        assert set(step.depends_on) <= done
        assert len(set(step.depends_on)) == len(step.depends_on)
        assert re.search(r"\w", step.question)
        assert step.specialist in ("", *ALL)
        done.add(step.id)
    asked = [" ".join(re.findall(r"\w+", step.question.casefold())) for step in (*earlier, *steps)]
    assert len(set(asked)) == len(asked)


@given(drafted)
def test_no_question_of_an_accepted_plan_is_lost(plan):
    try:
        steps = graph(plan, ALL)
    except BadPlan:
        return

    def asked(text):
        return " ".join(re.findall(r"\w+", " ".join(text.split()).casefold()))

    assert {asked(step.question) for step in steps} == {asked(one.question) for one in plan} - {""}
