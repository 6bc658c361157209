"""A judge that is biased on purpose, and one that is not, over parallel Spanish and English cases."""

import json
import random
from pathlib import Path

import pytest

from services.evaluation.judge.judge import JudgeFailed
from services.evaluation.judge.language_bias import ParallelCase, Side, language_bias, xquad_cases
from services.evaluation.judge.scripted import Script, ScriptedJudge

XQUAD = Path(__file__).parents[3] / "data/evals/metrics/xquad"
CASES = xquad_cases(XQUAD)


def truthful(cases, change=lambda case, language: case.supported, first=None):
    """A judge that says what `change` says of each side."""
    by = {}
    for case in cases:
        for language, side in case.sides.items():
            by[side.claim] = [side.passage] if change(case, language) else []
    return ScriptedJudge(Script(supported_by=by), first)


def test_xquad_gives_the_same_cases_in_both_languages_half_of_them_wrong():
    assert len(CASES) > 80
    assert len({case.id for case in CASES}) == len(CASES)
    supported = sum(case.supported for case in CASES)
    assert 0.45 < supported / len(CASES) < 0.55
    for case in CASES:
        assert case.sides["en"].claim != case.sides["es"].claim
        for side in case.sides.values():
            question, _, answer = side.claim.rpartition("?")
            assert question
            assert answer.strip() in side.passage


async def test_a_judge_that_is_right_in_both_languages_has_no_bias():
    found = await language_bias(CASES, truthful(CASES))
    assert found.accuracy == {"en": 1.0, "es": 1.0}
    assert (found.agreement, found.right.p_value, found.lenient.p_value) == (1.0, 1.0, 1.0)
    assert found.missing == {"en": 0, "es": 0}


async def test_a_judge_that_errs_as_often_in_both_languages_is_not_blamed():
    draw = random.Random(3)
    wrong = {(case.id, language) for case in CASES for language in case.sides if draw.random() < 0.15}
    biased = truthful(CASES, lambda case, language: case.supported ^ ((case.id, language) in wrong))
    found = await language_bias(CASES, biased)
    assert found.agreement < 0.9
    assert found.right.p_value > 0.05


async def test_a_judge_that_misses_spanish_facts_is_found_out():
    draw = random.Random(3)
    missed = {case.id for case in CASES if case.supported and draw.random() < 0.3}
    biased = truthful(CASES, lambda case, language: case.supported and not (language == "es" and case.id in missed))
    found = await language_bias(CASES, biased)
    assert found.accuracy["es"] < found.accuracy["en"] == 1.0
    assert found.right.p_value < 0.01
    assert found.right.difference.high < 0
    assert found.lenient.p_value < 0.01


async def test_a_judge_that_errs_to_the_other_side_in_the_other_language_is_found_out_though_it_errs_as_often():
    numbered = {case.id: n for n, case in enumerate(CASES)}

    def change(case, language):
        errs = numbered[case.id] % 10 in (0, 1) and case.supported == (language == "es")
        return case.supported ^ errs

    found = await language_bias(CASES, truthful(CASES, change))
    assert found.right.p_value > 0.05
    assert found.lenient.p_value < 0.01
    assert found.lenient.difference.mean < 0


async def test_a_case_that_fails_in_one_language_counts_in_neither_and_is_told():
    cases = CASES[:10]
    judge = truthful(cases, first={"support": [JudgeFailed("down")]})
    found = await language_bias(cases, judge)
    assert found.missing == {"en": 1, "es": 0}
    assert found.right.pair_count == 9


async def test_a_judge_that_always_fails_shows_no_bias():
    with pytest.raises(ValueError, match="no verdict"):
        await language_bias(CASES[:3], ScriptedJudge(Script()))


async def test_each_side_is_asked_in_its_own_language_and_by_itself():
    asked = []

    class Watched(ScriptedJudge):
        async def ask(self, task, language, facts, schema, check):
            asked.append((language, json.dumps(facts)))
            return await super().ask(task, language, facts, schema, check)

    case = ParallelCase("1", True, {"en": Side("It is.", "So it is."), "es": Side("Lo es.", "Así es.")})
    await language_bias([case], Watched(Script(supported_by={"It is.": ["So it is."], "Lo es.": ["Así es."]})))
    assert sorted(language for language, _ in asked) == ["en", "es"]
    assert all(("Lo es." in facts) == (language == "es") for language, facts in asked)
