"""The shipped sample through real services: a loss of quality fails here before it is noticed elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.evaluation.retrieval import server, split, targets, trial, xquad
from services.evaluation.retrieval.command import limited
from services.evaluation.retrieval.measures import NDCG
from services.evaluation.retrieval.processes import NotStarted, Processes
from services.evaluation.retrieval.stages import BM25, RERANKED

XQUAD = Path(__file__).parents[3] / "data" / "evaluation" / "collections" / "xquad"


# Three processes start, and thirty paragraphs are embedded: seconds on a machine that does nothing else.
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_spanish_questions_find_their_paragraphs(tmp_path):
    whole = split.part(xquad.load(XQUAD, "xquad-es"), split.DEV, split.read_frozen())
    some = replace(limited(whole, 30), passages=whole.passages[:30])
    async with server.running("", tmp_path / "cache") as product:
        found = await trial.run(some, product, lambda _: None, [BM25, RERANKED])
    assert targets.faults([found]) == []
    assert found.truncated_count == 0
    assert found.measured[BM25.name].mean(NDCG) >= 0.90
    assert found.measured[RERANKED.name].mean(NDCG) >= 0.94


async def test_a_service_that_cannot_start_says_why(tmp_path):
    with pytest.raises(NotStarted, match="embedding ended with status 78"):
        async with server.running("onnx:" + str(tmp_path / "no such model"), tmp_path / "cache"):
            pass


def test_processes_are_gone_at_the_end():
    with Processes() as processes:
        started = processes.start("reranking")
        folder = processes.folder
        started.check()
    assert not folder.exists()
    with pytest.raises(NotStarted, match="reranking ended"):
        started.check()
