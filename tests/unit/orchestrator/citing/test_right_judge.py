"""With a judge that is right, whole answers by strangers are checked as well as the targets want it."""

from pathlib import Path

from services.orchestrator.citing.judge import ModelJudge
from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.trials.citation_answers import natural_cases
from services.orchestrator.trials.citation_judge import KnowingModel
from services.orchestrator.trials.citations import check

EVERY = 8  # of the answers; the trial has them all


async def test_a_right_judge_finds_the_wrong_sentences_and_no_other():
    model = KnowingModel()
    reviewer = EvidenceReviewer(judge=ModelJudge(model), seconds=60, judges_all=True)
    checked = []
    for case in natural_cases(Path("tests/data/citations/written"))[::EVERY]:
        model.case = case
        checked.append(await check(case, reviewer))
    wrong, right = ([one for one in checked if one.case.right is kind] for kind in (False, True))
    assert len(wrong) >= 5
    assert len(right) >= 10
    assert sum(one.found for one in wrong) >= 0.95 * len(wrong)
    assert sum(one.found for one in right) <= 0.02 * len(right)
