import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.model import Message
from services.orchestrator.planning.forms import check_schema, plan_schema, read_check, read_plan
from services.orchestrator.planning.graph import BadPlan, Draft
from services.orchestrator.planning.transcript import calls_of
from tests.unit.orchestrator.agent_world import call


def test_the_schema_names_the_form_and_offers_the_specialists_that_there_are():
    schema = plan_schema(("sql",), 6)
    assert schema["title"] == "QuestionPlan"
    steps = schema["properties"]["steps"]
    assert (steps["minItems"], steps["maxItems"]) == (1, 6)
    assert steps["items"]["properties"]["specialist"]["enum"] == ["sql", ""]
    assert steps["items"]["required"] == ["id", "question", "specialist", "depends_on"]
    assert check_schema((), 6)["properties"]["steps"]["minItems"] == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": [{"id": "a", "question": "A?", "specialist": "sql", "depends_on": ["b"]}]}',
        '<think>{"steps": 1}</think>Here it is:\n```json\n{"steps": [{"id": "a", "question": "A?", '
        '"specialist": "sql", "depends_on": "b", "why": "x"}]}\n```',
    ],
)
def test_a_plan_is_read_whatever_stands_around_it(text):
    assert read_plan(text) == (Draft("a", "A?", "sql", ("b",)),)


def test_numbers_serve_as_ids_and_nothing_as_no_dependency():
    text = (
        '{"steps": [{"id": 1, "question": "A?", "specialist": null}, {"id": 2, "question": "B?", "depends_on": [1]}]}'
    )
    assert read_plan(text) == (Draft("1", "A?"), Draft("2", "B?", "", ("1",)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("{}", "steps: Field required"),
        ('{"steps": [7]}', r"steps\.0"),
        ('{"steps": [{"depends_on": [[]]}]}', r"steps\.0\.depends_on\.0"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_by_its_place(text, complaint):
    with pytest.raises(BadPlan, match=complaint):
        read_plan(text)


def test_steps_after_enough_was_found_do_not_count():
    assert read_check('{"enough": true, "steps": [{"question": "A?"}]}').drafts == ()
    assert read_check('{"enough": false, "missing": " a \\n b ", "steps": []}').missing == "a b"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda one: st.lists(one, max_size=3)
)
step = st.dictionaries(st.sampled_from(["id", "question", "specialist", "depends_on", "x"]), anything, max_size=4)


@given(
    st.one_of(st.text(max_size=80), st.builds(lambda steps: json.dumps({"steps": steps}), st.lists(step, max_size=4)))
)
def test_any_reply_is_read_or_refused(text):
    try:
        drafts = read_plan(text)
    except BadPlan:
        return
    assert all(isinstance(one, Draft) for one in drafts)


class Told:
    """As much of a nested run as its transcript needs."""

    def __init__(self, text, *rounds):
        self.text, self.messages = text, [Message("system", "…"), Message("user", "Q?")]
        for number, observation in rounds:
            self.messages += [
                Message("assistant", "Let me see.", (call(f"c{number}", "vector_search", query=str(number)),)),
                Message("tool", f'{{"passages":[{{"n":{number},"text":"{observation}"}}]}}', call_id=f"c{number}"),
            ]


def test_where_there_is_little_room_what_the_steps_cite_is_read_first():
    long = "x" * 400
    runs = [Told("Nothing.", (1, long)), Told("It is so [2].", (2, long), (3, long))]
    told = calls_of(runs, 150)
    assert [one.call_id for one in told if one.role == "tool"] == ["c2"]
    assert [one.text for one in told if one.role == "assistant"] == [""]
    assert [one.call_id for one in calls_of(runs, 10_000) if one.role == "tool"] == ["c1", "c2", "c3"]
    assert calls_of(runs, 0) == []
