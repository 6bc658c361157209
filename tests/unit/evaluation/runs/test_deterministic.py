"""What is measured without a judge."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluation.answered import Passage
from services.evaluation.golden.item import Stratum
from services.evaluation.runs import deterministic
from services.evaluation.runs.baselines import constant_answer
from services.evaluation.score import Status
from tests.unit.evaluation.runs.world import CANTEEN, GARANTIA, HELLO, ITEMS, WARRANTY, record, right


def test_a_refusal_is_right_where_there_is_no_answer_and_wrong_where_there_is_one():
    refused = replace(right(CANTEEN), question=WARRANTY.question)
    assert deterministic.refusal(record(CANTEEN, right(CANTEEN)), CANTEEN).value == 1
    assert deterministic.refusal(record(WARRANTY, right(WARRANTY)), WARRANTY).value == 1
    assert deterministic.refusal(record(WARRANTY, refused), WARRANTY).value == 0
    assert deterministic.refusal(record(CANTEEN, right(WARRANTY)), CANTEEN).value == 0
    assert deterministic.refusal(record(HELLO, right(HELLO)), HELLO).status is Status.NO_REFERENCE


def test_a_false_premise_may_be_refused_or_corrected():
    item = replace(WARRANTY, stratum=Stratum.FALSE_PREMISE)
    assert deterministic.refusal(record(item, right(CANTEEN)), item).value == 1
    assert deterministic.refusal(record(item, right(WARRANTY)), item).value == 1


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("It runs for 24 months [1].", 1),
        ("It runs for TWO YEARS.", 1),
        ("It runs for 124 months.", 0),
        ("It runs for 24 monthsish.", 0),
        ("I do not know.", 0),
    ],
)
def test_what_must_be_said_is_found_in_one_of_its_forms_and_whole(answer, value):
    found = deterministic.reference_facts(record(WARRANTY, replace(right(WARRANTY), answer=answer)), WARRANTY)
    assert found.value == value
    assert (found.details["missing"] == []) == bool(value)


def test_a_number_is_not_found_in_a_longer_one():
    item = replace(WARRANTY, contains=(("45",),))
    for wrong in ("45,000 euros", "145 days", "45.5 days"):
        answered = replace(right(WARRANTY), answer=wrong)
        assert deterministic.reference_facts(record(item, answered), item).value == 0
    for fine in ("45 days", "It is 45.", "(45)"):
        answered = replace(right(WARRANTY), answer=fine)
        assert deterministic.reference_facts(record(item, answered), item).value == 1


def test_without_a_list_numbers_codes_and_names_of_the_reference_are_what_must_be_said():
    item = replace(WARRANTY, contains=(), reference="It is worth 188,000 EUR; ask Ana Ruiz about CT-2025-0114.")
    wanted = {one[0] for one in deterministic.required(item)}
    assert {"CT-2025-0114", "188,000", "Ana Ruiz"} <= wanted
    nothing = replace(WARRANTY, contains=(), reference="yes, always.")
    assert deterministic.reference_facts(record(nothing, right(WARRANTY)), nothing).status is Status.NO_REFERENCE


def test_citations_are_compared_with_the_expected_sources_each_by_itself():
    item = replace(WARRANTY, sources=("table:contracts", "warranty"))
    made = record(item, right(WARRANTY), cited=("table:contracts + table:providers", "warranty"))
    assert deterministic.citation_recall(made, item).value == 1
    assert deterministic.citation_precision(made, item).value == pytest.approx(2 / 3)
    refused = record(item, right(CANTEEN))
    assert deterministic.citation_recall(refused, item).status is Status.NO_CLAIMS
    assert deterministic.citation_precision(refused, item).status is Status.NO_CLAIMS


def test_rows_of_two_tables_are_found_in_both():
    answered = replace(right(WARRANTY), passages=(Passage("3", "table:a + table:b"), Passage("x", "c")))
    assert [one.source for one in deterministic.by_source(answered).passages] == ["table:a", "table:b", "c"]


@given(st.text())
def test_folding_twice_is_folding_once(text):
    assert deterministic.folded(deterministic.folded(text)) == deterministic.folded(text)


def test_the_constant_answer_is_the_most_frequent_reference_and_else_the_shortest():
    assert constant_answer(ITEMS) == "La garantía dura 24 meses."
    assert constant_answer([WARRANTY, WARRANTY, GARANTIA]) == WARRANTY.reference
    assert constant_answer([CANTEEN]) == ""
