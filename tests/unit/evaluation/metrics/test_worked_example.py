"""The example by which the metrics are defined, to two decimals."""

import json

import pytest

from services.evaluation.judge.cached import CachedJudge, MemoryCache
from services.evaluation.judge.openai_judge import OpenAIJudge
from services.evaluation.judge.prompts import Prompts
from services.evaluation.metrics.catalogue import METRICS, named, score_all
from services.evaluation.score import Status
from tests.unit.evaluation.judge.judge_server import JudgeServer, listening
from tests.unit.evaluation.metrics.world import worked_example

EXPECTED = worked_example()[-1]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
async def test_every_metric_gives_the_value_of_the_worked_example(metric):
    answered, item, judge, embedder, expected = worked_example()
    score = await metric.score(answered, item, judge, embedder)
    assert score.status is Status.OK
    assert f"{score.value:.2f}" == f"{expected[metric.name]:.2f}"


def test_the_values_that_define_the_metrics_are_those_of_the_source():
    names = ("faithfulness", "context_precision", "context_recall", "answer_relevance")
    assert [EXPECTED[name] for name in names] == [0.75, 0.60, 1.00, 0.72]


async def test_the_invented_claim_and_the_useless_passages_are_named():
    answered, item, judge, embedder, _ = worked_example()
    faithfulness, precision = await score_all(
        named(["faithfulness", "context_precision"]), answered, item, judge, embedder
    )
    unsupported = [one["text"] for one in faithfulness.details["claims"] if not one["supported"]]
    assert unsupported == ["Since 7.2 Redis has JSON natively."]
    assert faithfulness.details["claims"][0]["passages"] == [1, 4]
    assert (faithfulness.claim_count, faithfulness.judge_calls) == (4, 2)
    relevant = [one["relevant"] for one in precision.details["passages"]]
    assert relevant == [True, True, False, True, False]


async def test_the_same_values_come_over_http_and_claims_are_asked_for_once():
    answered, item, script, embedder, expected = worked_example()
    async with listening(JudgeServer(script.reply)) as url:
        real = OpenAIJudge(url, "scripted over HTTP", Prompts.shipped())
        judge = CachedJudge(real, MemoryCache())
        scores = await score_all(METRICS, answered, item, judge, embedder)
        await real.close()
    assert {one.metric: round(one.value, 2) for one in scores} == expected
    # Claims and verdicts of answer and reference, relevance (for two metrics), questions, aspects and coverage.
    assert real.usage.calls == 8
    assert json.dumps([dict(one.details) for one in scores])
