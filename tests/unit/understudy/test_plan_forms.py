"""Forms of an agent that plans, and turns with tools as JSON."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.understudy.conversation import Call, Message, read_conversation
from services.understudy.plan_forms import names_given
from services.understudy.reply import Choice, decide
from tests.unit.understudy.test_reply import SEARCH, SQL

TODAY = date(2026, 7, 29)


def plan_form(*specialists):
    step = {"properties": {"specialist": {"enum": [*specialists, ""]}}}
    return {"properties": {"steps": {"items": step}}}


PLAN = plan_form("documents", "sql", "web")
CHECK = {"properties": {"enough": {}, "missing": {}, "steps": {}}}
TOOL_PLAN = {"properties": {"thought": {}, "calls": {}, "answer": {}}}


def filled(form, *messages):
    return json.loads(decide(read_conversation(messages), [], Choice(json_schema=form), TODAY).text)


def steps_of(question, form=PLAN):
    steps = filled(form, Message("system", "Plan."), Message("user", question))["steps"]
    return [(one["question"], one["specialist"], one["depends_on"]) for one in steps]


def test_independent_parts_become_steps_that_wait_for_nobody():
    assert steps_of("¿Qué dice la política de viajes y cuánto hemos gastado en hoteles en 2024?") == [
        ("¿Qué dice la política de viajes", "documents", []),
        ("cuánto hemos gastado en hoteles en 2024", "sql", []),
    ]


def test_a_part_about_what_another_finds_depends_on_it():
    question = "Which is the largest contract that we signed in 2025, and what penalty does that contract set?"
    assert [one[1:] for one in steps_of(question)] == [("sql", []), ("documents", ["s1"])]


def test_what_recurs_is_no_reason_to_wait_but_is_asked_with_what_it_is_about():
    (_, second) = steps_of("¿Cuántos contratos firmamos en 2025, y qué condiciones especiales se repiten?")
    assert second[1:] == ("documents", [])
    assert "contratos" in second[0]


def test_what_is_asked_of_a_thing_that_is_only_described_takes_two_steps():
    assert steps_of("What is the capital of the country that won the 2010 World Cup?") == [
        ("Which country won the 2010 World Cup?", "web", []),
        ("What is the capital of that country?", "documents", ["s1"]),
    ]
    assert [one[2] for one in steps_of("¿Quién es el director de la empresa que fabrica las cintas?")] == [[], ["s1"]]


def test_things_named_together_become_a_step_each():
    assert [one[0] for one in steps_of("Compare the penalties of CT-2025-0052 and CT-2025-0091")] == [
        "the penalties of CT-2025-0052",
        "the penalties of CT-2025-0091",
    ]


@pytest.mark.parametrize("question", ["hola", "How many payments are late?", "¿Qué dice la política de viajes?"])
def test_one_thing_is_one_step(question):
    assert [(one[0], one[2]) for one in steps_of(question)] == [(question, [])]


def test_a_specialist_that_is_not_on_offer_is_not_named():
    assert [one[1] for one in steps_of("¿Cuántos contratos hay?", plan_form("documents"))] == [""]


def found(question, *, said=True, problem=None):
    told = {"step": "s1", "question": question, "found": said, "answer": "x"}
    return told | ({"problem": problem} if problem else {})


def checked(*steps):
    return filled(CHECK, Message("system", "Check."), Message("user", json.dumps({"question": "Q?", "steps": steps})))


def test_nothing_is_missing_when_every_step_found_something():
    assert checked(found("A?")) == {"enough": True, "missing": "", "steps": []}


def test_what_was_not_found_is_looked_for_in_other_words_with_all_tools():
    said = checked(found("¿Qué preaviso hay?", said=False, problem="nothing was found"), found("B?"))
    assert said["enough"] is False
    (step,) = said["steps"]
    assert step["specialist"] == ""
    assert step["question"] != "¿Qué preaviso hay?"


@pytest.mark.parametrize("problem", ["timeout after 5s", "what it depends on was not found", "deadline"])
def test_a_step_that_could_not_work_is_not_tried_again(problem):
    assert checked(found("¿Qué preaviso hay?", said=False, problem=problem))["enough"] is True


def test_a_form_between_marks_of_where_it_came_from_is_read():
    marked = {"untrusted": "x1", "from": "tool:earlier_steps", "steps": [found("A?")], "end": "x1"}
    assert filled(CHECK, Message("user", f"<<{json.dumps(marked)}>>"))["enough"] is True


def given_steps(answer):
    steps = json.dumps(
        {"steps": [{"step": "s1", "question": "Which is the largest?", "found": True, "answer": answer}]}
    )
    return f"\n\n<earlier_steps>\n{steps}\n</earlier_steps>"


def test_a_step_that_leans_on_an_earlier_one_searches_with_what_that_found():
    question = "What penalty does that contract set?" + given_steps("The largest is CT-2025-0052 [1].")
    conversation = read_conversation([Message("user", question)])
    assert conversation.question == "What penalty does that contract set?"
    (call,) = decide(conversation, [SEARCH], Choice(), TODAY).calls
    assert "CT-2025-0052" in json.loads(call.arguments)["query"]


def test_names_of_earlier_answers_are_those_that_the_question_did_not_hold():
    assert names_given(given_steps("It is Limpa Vasqueira with AB-12 [1][2]. Which is the largest? Yes.")) == [
        "AB-12",
        "Limpa Vasqueira",
    ]
    assert names_given("no steps at all") == []


def test_a_word_that_it_is_time_to_answer_is_no_question():
    asked = [
        Message("user", "¿Cuántos contratos hay?"),
        Message("user", "Findings: …\n\n[No more tools can be called.]"),
    ]
    assert read_conversation(asked).question == "¿Cuántos contratos hay?"


def described(*tools):
    lines = "\n".join(
        json.dumps({"name": t.name, "description": t.description, "parameters": t.parameters}) for t in tools
    )
    return Message("system", f"Rules.\n<tools>\n{lines}\nnot a tool\n</tools>")


def test_a_turn_with_tools_as_json_holds_several_calls():
    said = filled(
        TOOL_PLAN, described(SEARCH, SQL), Message("user", "¿Cuántos contratos hay, y qué condiciones se repiten?")
    )
    assert [one["tool"] for one in said["calls"]] == ["sql_query", "vector_search"]
    assert said["answer"] == ""
    assert all(isinstance(one["arguments"], dict) for one in said["calls"])


def test_a_turn_with_tools_as_json_holds_the_answer_when_all_was_found():
    rows = json.dumps({"n": 2, "columns": ["contracts_count"], "rows": [[3]], "row_count": 1, "truncated": False})
    messages = [
        described(SQL),
        Message("user", "¿Cuántos contratos hay?"),
        Message("assistant", "", (("c1", Call("sql_query", "{}")),)),
        Message("tool", rows, call_id="c1"),
    ]
    said = filled(TOOL_PLAN, *messages)
    assert said["calls"] == []
    assert said["answer"].endswith("[2].")


@given(st.text(max_size=200), st.sampled_from([PLAN, CHECK, TOOL_PLAN]))
def test_any_text_can_be_planned(text, form):
    said = filled(form, Message("user", text))
    steps = said.get("steps", [])
    assert len(steps) <= 6
    for number, step in enumerate(steps):
        assert all(need in {f"s{n}" for n in range(1, number + 1)} for need in step["depends_on"])
