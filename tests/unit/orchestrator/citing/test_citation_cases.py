from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.trials.citation_cases import make_cases
from services.orchestrator.trials.citation_claims import read_material
from services.orchestrator.trials.citation_pairs import paired_cases
from services.orchestrator.trials.citations import check, table

FOLDER = Path(__file__).parents[3] / "data" / "citations"


@pytest.fixture(scope="module")
def cases():
    return make_cases(read_material(FOLDER))


def test_there_are_enough_cases_of_each_sort_in_both_languages(cases):
    for right in (True, False):
        mine = [one for one in cases if one.right is right]
        assert len(mine) >= 200
        assert min(Counter(one.language for one in mine).values()) >= 100
    assert {one.kind for one in cases if not one.right} >= {
        "swapped_source", "wrong_mark", "changed_number", "changed_unit", "negation", "other_entity", "uncited_number",
    }  # fmt: skip


def test_no_document_is_in_both_halves(cases):
    halves = [
        {source for one in cases if one.test is test for source in map(repr, one.sources)} for test in (True, False)
    ]
    assert not halves[0] & halves[1]


def test_the_same_seed_makes_the_same_cases():
    material = read_material(FOLDER)
    few = replace(material, claims=material.claims[:8])
    assert make_cases(few) == make_cases(few)


@pytest.mark.slow
async def test_words_and_figures_alone_find_most_of_the_development_half(cases):
    reviewer = EvidenceReviewer(seconds=30)
    checked = [await check(one, reviewer) for one in [one for one in cases if not one.test][::2]]
    wrong = [one.found for one in checked if not one.case.right and one.case.kind not in ("negation", "direction")]
    right = [one.found for one in checked if one.case.right]
    assert sum(wrong) / len(wrong) >= 0.84
    assert sum(right) / len(right) <= 0.02
    assert "| wrong, caught | **all** |" in table(checked)


@pytest.mark.parametrize("test", [False, True])
def test_pairs_make_as_many_right_as_wrong_answers_and_whole_ones_with_one_wrong_sentence(test):
    made = paired_cases(FOLDER / "opposed" / ("test" if test else "dev"), test=test)
    assert sum(one.right for one in made) * 2 == len(made) >= 200
    whole = [one for one in made if one.kind == "whole answer" and not one.right]
    assert len(whole) >= 20
    assert all(one.answer.count("[") == 3 and one.planted.rstrip(".") in one.answer for one in whole)


async def test_most_contraries_are_found_by_words_alone_and_hardly_any_right_answer_is_blamed():
    reviewer = EvidenceReviewer(seconds=30)
    checked = [await check(one, reviewer) for one in paired_cases(FOLDER / "opposed" / "dev", test=False)]
    right = [one.found for one in checked if one.case.right]
    assert sum(one.found for one in checked if not one.case.right) >= 40
    assert sum(right) / len(right) <= 0.03
