"""A build in one process: what is the same question, and what the report tells."""

import pytest

from services.evaluation.golden.building import build as building
from services.evaluation.golden.building.build import Plan, build, markdown
from services.evaluation.golden.building.candidate import Candidate, Rejection
from services.evaluation.golden.building.chunk import Chunk
from services.evaluation.golden.building.journal import Journal
from services.evaluation.golden.item import Stratum

CHUNKS = [Chunk(f"d{n}", f"Document {n} says that rule {n} holds for everybody in hall {n}.") for n in range(8)]


class AsksThis:
    """An author that writes the questions it was given, one for each chunk in turn, and nothing harder."""

    def __init__(self, questions):
        self._questions = list(questions)

    async def single_hop(self, chunk, count):
        stratum = Stratum.SINGLE_HOP
        asked = [self._questions.pop(0)] if self._questions else []
        return [
            Candidate(
                question=one,
                language="en",
                stratum=stratum,
                documents=[chunk.document],
                chunks=[chunk.id],
                reference="a",
            )
            for one in asked
        ]


async def built(tmp_path, questions, duplicates=None):
    plan = Plan(multi_hop_share=0, false_premise_share=0, unanswerable_share=0, least_characters=1, concurrency=1)
    with Journal(tmp_path / "journal.jsonl") as journal:
        return await build(
            CHUNKS, lambda corpus: AsksThis(questions), plan, journal, "m", lambda done, total: None, duplicates
        )


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("What does rule 3 say?", "what does RULE 3 say", True),
        (
            "What does the travel policy say about hotels abroad?",
            "What does the travel policy say on hotels abroad?",
            True,
        ),
        ("What does clause 8.3 of CT-2025-0001 say?", "What does clause 8.3 of CT-2025-0002 say?", False),
        ("What does the travel policy say about hotels?", "Who approves a trip by train?", False),
    ],
)
async def test_the_same_question_is_taken_once_and_another_number_is_another_question(tmp_path, first, second, same):
    found = await built(tmp_path, [first, second])
    assert [one.question for one in found.items] == ([first] if same else [first, second])
    assert found.report.rejected[Rejection.DUPLICATE] == same


async def test_each_item_has_the_half_of_its_document_and_the_text_it_was_written_from(tmp_path):
    found = await built(tmp_path, [f"What about hall {n}, {'x' * n}?" for n in range(8)])
    assert len(found.items) == 8
    assert [one.split for one in found.items].count("dev") == 4
    texts = {chunk.document: chunk.text for chunk in CHUNKS}
    assert all(found.passages[one.id] == [texts[one.sources[0]]] for one in found.items)


async def test_the_report_shows_what_was_rejected_and_why(tmp_path):
    found = await built(tmp_path, ["Which | hall?", "Which | hall?"])
    text = markdown(found.report, 1)
    assert "8 chunks, 8 steps (0 of an earlier run), 2 questions." in text
    assert "1 taken, 1 of them drawn for review." in text
    assert f"| {Rejection.DUPLICATE.value} | 1 | Which \\| hall? |" in text


def test_a_report_says_what_the_next_run_has_to_do():
    text = markdown(building.Report(failed=2, over_budget=True), 0)
    assert "2 steps failed" in text
    assert "budget was used up" in text
