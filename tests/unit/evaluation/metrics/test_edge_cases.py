"""What has no value says why, and is never 0 or 1 by accident."""

import json

import pytest

from services.evaluation.judge.judge import JudgeFailed, OverBudget
from services.evaluation.judge.scripted import Script, ScriptedJudge
from services.evaluation.metrics import noise_sensitivity
from services.evaluation.metrics.catalogue import METRICS, ONLINE, named, score_all
from services.evaluation.metrics.embedder import ScriptedEmbedder
from services.evaluation.metrics.metric import Metric
from services.evaluation.score import Status
from tests.unit.evaluation.metrics.world import ANSWER, NO_VECTORS, QUESTION, answered, item, judge, supporting

CLAIMS = ["One.", "Two.", "Three."]
JUDGED = [metric for metric in METRICS if metric.needs_judge]


def metric(name) -> Metric:
    return named([name])[0]


async def score(name, answer, about=None, by=None, embedder=NO_VECTORS):
    return await metric(name).score(answer, about, by or supporting(CLAIMS, CLAIMS), embedder)


@pytest.mark.parametrize("name", ["faithfulness", "context_precision", "context_precision_ranked", "context_recall"])
@pytest.mark.parametrize("passages", [(), ("",), (" ", "\n")])
async def test_an_answer_to_nothing_is_not_judged_and_never_scores_one(name, passages):
    by = supporting(CLAIMS, CLAIMS)
    found = await score(name, answered(passages), item(), by)
    assert (found.status, found.value, by.usage.calls) == (Status.NO_CONTEXT, None, 0)


@pytest.mark.parametrize("name", ["faithfulness", "answer_relevance", "completeness"])
@pytest.mark.parametrize("refused", [{"answer": " \n"}, {"finish": "refused"}])
async def test_a_refusal_is_not_judged_by_what_looks_at_answers(name, refused):
    by = supporting(CLAIMS, CLAIMS)
    found = await score(name, answered(**refused), item(), by)
    assert (found.status, by.usage.calls) == (Status.NO_CLAIMS, 0)


async def test_a_refusal_does_not_hide_how_good_the_retrieval_was():
    found = await score("context_recall", answered(finish="refused"), item())
    assert (found.status, found.value) == (Status.OK, 1.0)


@pytest.mark.parametrize("name", ["faithfulness", "context_recall"])
@pytest.mark.parametrize("claims", [[], ["  "]])
async def test_no_claims_is_not_a_score(name, claims):
    by = judge({"claims": [json.dumps({"claims": claims})]})
    found = await score(name, answered(), item(), by)
    assert (found.status, found.value) == (Status.NO_CLAIMS, None)


async def test_a_noncommittal_answer_is_counted_apart():
    found = await score("answer_relevance", answered(), by=judge(questions={ANSWER: []}))
    assert (found.status, found.reason) == (Status.NO_CLAIMS, "the judge found the answer noncommittal")


@pytest.mark.parametrize("about", [None, item(reference=None), item(reference=" ")])
async def test_without_a_reference_there_is_no_recall(about):
    assert (await score("context_recall", answered(), about)).status is Status.NO_REFERENCE


@pytest.mark.parametrize("name", ["recall@10", "precision@10", "mrr@10", "ndcg@10"])
async def test_a_ranking_is_measured_where_sources_are_expected_and_an_empty_one_is_zero(name):
    assert (await score(name, answered(), None)).status is Status.NO_REFERENCE
    assert (await score(name, answered(), item())).status is Status.NO_REFERENCE
    empty = await score(name, answered(()), item(sources=["p1"]))
    assert (empty.status, empty.value, empty.reason) == (Status.OK, 0.0, "nothing was retrieved")
    assert empty.judge_calls == 0


@pytest.mark.parametrize("name", [one.name for one in JUDGED])
@pytest.mark.parametrize(
    ("error", "status"), [(JudgeFailed("down"), Status.JUDGE_FAILED), (OverBudget("spent"), Status.OVER_BUDGET)]
)
async def test_a_judge_that_fails_leaves_a_gap_with_the_reason(name, error, status):
    by = judge({task: [error] for task in ("claims", "relevance", "questions", "aspects")})
    found = await score(name, answered(), item(), by)
    assert (found.status, found.value, found.reason, found.judge_calls) == (status, None, str(error), 1)


def verdicts(*numbers, supported=True):
    each = [{"claim": n, "reason": "", "passages": [], "supported": supported} for n in numbers]
    return json.dumps({"verdicts": each})


@pytest.mark.parametrize("wrong", [(1, 2), (1, 2, 2), (1, 2, 3, 4), (0, 1, 2), (2, 3, 4), ()])
async def test_verdicts_that_do_not_match_the_claims_are_asked_for_once_more(wrong):
    by = judge({"support": [verdicts(*wrong), verdicts(1, 2, 3)]}, claims={ANSWER: CLAIMS})
    found = await score("faithfulness", answered(), by=by)
    assert (found.value, by.usage.repeated) == (1.0, 1)


async def test_verdicts_that_never_match_are_a_failure_and_not_a_smaller_denominator():
    by = judge({"support": [verdicts(1, 2), verdicts(1, 1, 2)]}, claims={ANSWER: CLAIMS})
    found = await score("faithfulness", answered(), by=by)
    assert (found.status, found.value) == (Status.JUDGE_FAILED, None)


async def test_verdicts_belong_to_the_claim_that_they_number_in_whatever_order_they_come():
    shuffled = json.loads(verdicts(3, 1, 2, supported=False))
    shuffled["verdicts"][0]["supported"] = True
    by = judge({"support": [json.dumps(shuffled)]}, claims={ANSWER: CLAIMS})
    found = await score("faithfulness", answered(), by=by)
    assert [one["supported"] for one in found.details["claims"]] == [False, False, True]
    assert [one["text"] for one in found.details["claims"]] == CLAIMS


async def test_a_verdict_by_a_passage_that_was_not_shown_is_not_taken():
    invented = json.loads(verdicts(1, 2, 3))
    invented["verdicts"][0]["passages"] = [9]
    by = judge({"support": [json.dumps(invented)] * 2}, claims={ANSWER: CLAIMS})
    assert (await score("faithfulness", answered(), by=by)).status is Status.JUDGE_FAILED


async def test_many_claims_are_judged_in_batches_and_all_are_counted():
    many = [f"Claim {n}." for n in range(53)]
    by = supporting(many, many[::2])
    found = await score("faithfulness", answered(), by=by)
    assert (found.claim_count, found.judge_calls) == (53, 4)
    assert found.value == 27 / 53


async def test_a_long_reference_is_judged_like_any():
    text = "The contract says so. " * 400
    by = judge(claims={text: CLAIMS}, supported_by={one: ["p1"] for one in CLAIMS})
    assert (await score("context_recall", answered(), item(reference=text), by)).value == 1.0


@pytest.mark.parametrize("vector", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
async def test_a_vector_without_a_direction_is_a_failure_and_not_a_number(vector):
    by = judge(questions={ANSWER: ["a?", "b?", "c?"]})
    embedder = ScriptedEmbedder({QUESTION: [1.0, 0.0], "a?": [1.0, 0.0], "b?": vector, "c?": [0.0, 1.0]})
    assert (await score("answer_relevance", answered(), by=by, embedder=embedder)).status is Status.JUDGE_FAILED


async def test_relevance_without_vectors_is_missing():
    by = judge(questions={ANSWER: ["a?", "b?", "c?"]})
    assert (await score("answer_relevance", answered(), by=by)).status is Status.JUDGE_FAILED


async def test_relevance_without_an_embedder_is_missing_and_costs_nothing():
    by = judge(questions={ANSWER: ["a?", "b?", "c?"]})
    found = await metric("answer_relevance").score(answered(), None, by, None)
    assert (found.status, found.reason, by.usage.calls) == (Status.JUDGE_FAILED, "nothing embeds questions", 0)


@pytest.mark.parametrize("name", [one.name for one in METRICS])
async def test_without_a_judge_what_needs_one_is_missing_and_the_rest_is_there(name):
    found = await metric(name).score(answered(), item(sources=["p1"]), None, NO_VECTORS)
    if metric(name).needs_judge:
        assert (found.status, found.reason, found.judge_calls) == (Status.JUDGE_FAILED, "no judge is set", 0)
    else:
        assert found.status is Status.OK


@pytest.mark.parametrize(
    ("cosines", "expected"), [([-0.9, -0.2, -0.1], 0.0), ([-0.3, 0.6, 0.9], 0.4), ([1.0, 1.0, 1.0], 1.0)]
)
async def test_only_a_mean_below_zero_is_lifted_and_no_single_cosine(cosines, expected):
    questions = ["a?", "b?", "c?"]
    embedder = ScriptedEmbedder.by_cosine(QUESTION, dict(zip(questions, cosines, strict=True)))
    found = await score("answer_relevance", answered(), by=judge(questions={ANSWER: questions}), embedder=embedder)
    assert round(found.value, 9) == expected


async def test_relevance_of_passages_is_judged_by_the_reference_and_never_by_the_answer():
    seen = []

    class Watched(ScriptedJudge):
        def reply(self, task, facts):
            seen.append(facts)
            return super().reply(task, facts)

    by = Watched(Script(relevant_to={QUESTION: ["p1"]}))
    await metric("context_precision").score(answered(), item(), by, NO_VECTORS)
    await metric("context_precision").score(answered(), None, by, NO_VECTORS)
    assert [sorted(one) for one in seen] == [["passages", "question", "reference"], ["passages", "question"]]


@pytest.mark.parametrize(("clean", "noisy", "when"), [((), ("p1",), "without"), (("p1",), (), "with")])
async def test_noise_sensitivity_says_which_of_the_two_has_no_value(clean, noisy, when):
    found = await noise_sensitivity.score(answered(clean), answered(noisy), supporting(CLAIMS, CLAIMS))
    assert (found.status, found.reason) == (Status.NO_CONTEXT, f"{when} noise: nothing was retrieved")


def test_what_can_be_had_of_live_traffic_needs_no_item():
    assert [one.name for one in ONLINE] == [
        "faithfulness",
        "answer_relevance",
        "context_precision",
        "context_precision_ranked",
        "completeness",
    ]


def test_metrics_are_named_in_the_order_asked_for_and_unknown_ones_are_refused():
    assert [one.name for one in named(["mrr@10", "faithfulness"])] == ["mrr@10", "faithfulness"]
    with pytest.raises(ValueError, match="no metric is called fidelity; there are faithfulness"):
        named(["fidelity"])


async def test_one_metric_that_fails_leaves_the_others():
    by = judge({"claims": [JudgeFailed("down")] * 2}, relevant_to={QUESTION: ["p1"]})
    scores = await score_all(named(["faithfulness", "context_precision"]), answered(), None, by, NO_VECTORS)
    assert [one.status for one in scores] == [Status.JUDGE_FAILED, Status.OK]
