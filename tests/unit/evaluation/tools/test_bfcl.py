"""The leaderboard's files: every kind of case is read, and its own answers are right by our matching."""

import pytest
from jsonschema import Draft202012Validator

from services.evaluation.answered import Answered, Call
from services.evaluation.golden.item import Stratum
from services.evaluation.tools import bfcl, expectation
from services.evaluation.tools.accuracy import Share, judge, summed
from services.evaluation.tools.assignment import Assigner
from services.evaluation.tools.bfcl import BrokenFile, accepted
from tests.unit.evaluation.tools import replaying_model
from tests.unit.evaluation.tools.replaying_model import SAMPLE

WITH_CALLS = ("simple_python", "multiple", "parallel", "parallel_multiple")


def perfect(case):
    """The answers of the file itself, as calls."""
    calls = replaying_model.perfect(SAMPLE, case.item.id.rpartition("_")[0])[case.item.id]
    return Answered("?", "", "en", calls=tuple(Call(tool, arguments) for tool, arguments in calls))


@pytest.mark.parametrize("category", WITH_CALLS)
async def test_the_answers_of_the_file_are_right(category):
    cases = bfcl.read(SAMPLE, category)
    assert len(cases) == 12
    judged = [await judge(case.item, perfect(case), Assigner(case.parameters)) for case in cases]
    found = summed(judged)
    assert (found.accuracy, found.calls.value, found.arguments.value) == (Share(12, 12), 1, 1)
    if category.startswith("parallel"):
        assert found.parallel.value == 1


@pytest.mark.parametrize("category", WITH_CALLS)
async def test_an_argument_that_nobody_knows_is_wrong(category):
    case = bfcl.read(SAMPLE, category)[0]
    answer = perfect(case)
    spoiled = [Call(one.tool, {**one.arguments, "nonsense": 1}) for one in answer.calls]
    judged = await judge(case.item, Answered("?", "", "en", calls=tuple(spoiled)), Assigner(case.parameters))
    assert summed([judged]).calls.part == 0


def test_an_irrelevant_function_is_not_to_be_called():
    cases = bfcl.read(SAMPLE, "irrelevance")
    assert {(case.item.stratum, case.item.calls) for case in cases} == {(Stratum.NO_TOOL, ())}


@pytest.mark.parametrize("category", bfcl.CATEGORIES)
def test_schemas_are_json_schema_and_expectations_mean_something(category):
    for case in bfcl.read(SAMPLE, category):
        for function in case.functions:
            Draft202012Validator.check_schema(function.parameters)
        for call in case.item.calls:
            for wanted in call.arguments.values():
                expectation.check(wanted)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], {"any_of": [1, 2]}),
        (["x", ""], {"optional": {"any_of": ["x"]}}),
        ([""], {"optional": {"equals": ""}}),
        ([[1, 2]], {"any_of": [{"items": [1, 2]}]}),
        ([{"a": [1, ""]}], {"any_of": [{"fields": {"a": {"optional": {"any_of": [1]}}}}]}),
    ],
)
def test_a_list_of_accepted_values_is_an_expectation(values, expected):
    assert accepted(values) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("{", "line 1"), ('{"id": "x"}', "`x` lacks"), ('{"id": "x", "question": [[]]}', "lacks 'possible answer'")],
)
def test_what_is_no_file_of_the_leaderboard_is_said(tmp_path, text, complaint):
    (tmp_path / "BFCL_v4_simple_python.json").write_text(text, encoding="utf-8")
    with pytest.raises(BrokenFile, match=complaint):
        bfcl.read(tmp_path, "simple_python")


def test_a_folder_without_files_is_said(tmp_path):
    with pytest.raises(BrokenFile, match=r"BFCL_v4_multiple\.json"):
        bfcl.read(tmp_path, "multiple")
