from pathlib import Path

from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.trials.citation_answers import natural_cases
from services.orchestrator.trials.citations import check

# Of right answers blamed and losing a mark at most, of wrong ones found at least, without embeddings.
MOST_BLAMED, MOST_AT_ONCE, LEAST_FOUND = 0.04, 0.02, 0.68
FOLDER = Path(__file__).parents[3] / "data" / "citations" / "written"


async def checked():
    reviewer = EvidenceReviewer(seconds=30)
    return [await check(one, reviewer) for one in natural_cases(FOLDER)]


async def test_of_answers_as_people_write_them_hardly_a_right_one_is_blamed_and_most_faults_are_found_by_words():
    done = await checked()
    right = [one for one in done if one.case.right]
    wrong = [one for one in done if not one.case.right]
    assert len(right) >= 90
    assert len(wrong) >= 60
    assert sum(one.found for one in right) / len(right) <= MOST_BLAMED
    assert sum(one.at_once for one in right) / len(right) <= MOST_AT_ONCE
    assert sum(one.found for one in wrong) / len(wrong) >= LEAST_FOUND
