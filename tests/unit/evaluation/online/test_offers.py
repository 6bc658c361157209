"""Offers: a bounded queue, scores by what there is; what is lost is counted and loses nothing else."""

import asyncio

import pytest

from services.evaluation.judge.judge import JudgeFailed, OverBudget
from services.evaluation.judge.scripted import Script, ScriptedJudge
from services.evaluation.metrics.embedder import EmbedderFailed, ScriptedEmbedder
from services.evaluation.online.drift import Windows
from services.evaluation.online.feedback import Join, ScriptedFeedback, Word
from services.evaluation.online.gauges import Gauges
from services.evaluation.online.offers import ONLINE_NAMES, Measuring, Offers
from services.evaluation.online.store import Agreement, MemoryScoreStore
from services.evaluation.score import Score, Status
from services.runtime.errors import DependencyFailed, InvalidField, Overloaded
from services.runtime.tenants import Tenant
from tests.unit.evaluation.online.world import offered, sample

PASSAGE = "The penalty is 2 %."
JUDGE = Script(
    claims={"It is 2 %.": ["The penalty is 2 %.", "It is monthly."]},
    supported_by={"The penalty is 2 %.": [PASSAGE], "It is monthly.": []},
    questions={"It is 2 %.": ["What is the penalty?", "How high is the penalty?", "Is there a penalty?"]},
)


class Traces:
    def __init__(self):
        self.sent = []
        self.closed = False

    async def send(self, offered, scores, judge):
        self.sent.append((offered.answered.answer_id, [one.metric for one in scores], judge))

    async def close(self):
        self.closed = True


class LostStore(MemoryScoreStore):
    async def put(self, offered, scores, judge):
        raise DependencyFailed("PostgreSQL failed.", dependency="postgresql")

    async def forget(self, days):
        raise DependencyFailed("PostgreSQL failed.", dependency="postgresql")


class FailingJudge(ScriptedJudge):
    """Fails as it is told to."""

    def __init__(self, error):
        super().__init__(Script())
        self._error = error

    async def ask(self, *arguments, **more):
        raise self._error


class Hanging(FailingJudge):
    def __init__(self):
        super().__init__(None)
        self.begun = asyncio.Event()

    async def ask(self, *arguments, **more):
        self.begun.set()
        await asyncio.Event().wait()


class LostEmbedder:
    async def embed(self, texts, language):
        raise EmbedderFailed("embedding failed")


@pytest.fixture
def store():
    return MemoryScoreStore()


def begin(store, judge=None, embedder=None, **more):
    seconds = more.pop("seconds", 300)
    made = Offers(Measuring(judge, embedder, seconds), store, more.pop("act_for", lambda tenant: None), **more)
    return made


async def measured(offers, *answers):
    await offers.open()
    try:
        for one in answers:
            await offers.offer(one)
        await asyncio.wait_for(offers.join(), 60)
    finally:
        await offers.close()


async def test_an_answer_is_scored_kept_and_told(store):
    traces, tenants = Traces(), []
    name, labels = "rag_online_faithfulness_score", {"tenant": "told", "language": "en"}
    embedder = ScriptedEmbedder.by_cosine(
        "What is the penalty?", {"How high is the penalty?": 0.8, "Is there a penalty?": 0.6}
    )
    offers = begin(store, ScriptedJudge(JUDGE), embedder, traces=traces, act_for=tenants.append)
    await measured(offers, offered(tenant="told", metrics=("faithfulness", "answer_relevance")))
    _, scores, judge = store.kept["told", "ans_1"]
    assert [(one.metric, one.value) for one in scores] == [
        ("faithfulness", 0.5),
        ("answer_relevance", pytest.approx(0.8)),
    ]
    assert judge == "scripted"
    assert traces.sent == [("ans_1", ["faithfulness", "answer_relevance"], "scripted")]
    assert traces.closed
    assert tenants == ["told"]
    assert (sample(f"{name}_sum", **labels), sample(f"{name}_count", **labels)) == (0.5, 1)


async def test_what_needs_no_judge_is_told_without_one(store):
    answers = [
        offered("ans_1", "plain", ()),
        offered("ans_2", "plain", (), finish="refused", passages=(), calls=()),
    ]
    await measured(begin(store), *answers)
    assert sample("rag_online_answers_total", tenant="plain", finish="answered") == 1
    assert sample("rag_online_answers_total", tenant="plain", finish="refused") == 1
    assert sample("rag_online_tool_use_total", tenant="plain", tools="vector_search") == 1
    assert sample("rag_online_tool_use_total", tenant="plain", tools="none") == 1
    assert sample("rag_online_retrieval_score_sum", tenant="plain", language="en") == 0.8
    assert sample("rag_online_retrieval_score_count", tenant="plain", language="en") == 1


@pytest.mark.parametrize(
    ("judge", "status"),
    [
        (None, Status.JUDGE_FAILED),
        (FailingJudge(JudgeFailed("no")), Status.JUDGE_FAILED),
        (FailingJudge(OverBudget("no")), Status.OVER_BUDGET),
    ],
)
async def test_a_score_that_is_not_there_is_counted_by_why_and_is_no_zero(store, judge, status):
    labels = {"metric": "faithfulness", "status": status.value}
    before = sample("rag_online_scores_missing_total", **labels)
    await measured(begin(store, judge), offered(tenant="missing"))
    assert sample("rag_online_scores_missing_total", **labels) == before + 1
    assert sample("rag_online_faithfulness_score_count", tenant="missing", language="en") == 0
    (score,) = store.kept["missing", "ans_1"][1]
    assert (score.value, score.status) == (None, status)


async def test_a_judge_that_hangs_does_not_hold_the_queue(store):
    await measured(begin(store, Hanging(), seconds=0.05), offered("ans_1"), offered("ans_2"))
    assert [store.kept["acme", one][1][0].status for one in ("ans_1", "ans_2")] == [Status.JUDGE_FAILED] * 2


async def test_a_full_queue_refuses_early(store):
    judge = Hanging()
    offers = begin(store, judge, most_waiting=1, workers=1)
    await offers.open()
    await offers.offer(offered("ans_1"))
    await asyncio.wait_for(judge.begun.wait(), 60)
    await offers.offer(offered("ans_2"))
    with pytest.raises(Overloaded):
        await offers.offer(offered("ans_3"))
    await offers.close()


async def test_the_same_answer_counts_once(store):
    before = sample("rag_online_offers_total", outcome="repeated")
    await measured(begin(store), offered(tenant="twice", metrics=()), offered(tenant="twice", metrics=()))
    assert sample("rag_online_answers_total", tenant="twice", finish="answered") == 1
    assert sample("rag_online_offers_total", outcome="repeated") == before + 1


@pytest.mark.parametrize("name", ["context_recall", "recall@10", "nothing"])
async def test_a_metric_that_needs_a_reference_is_refused(store, name):
    with pytest.raises(InvalidField, match="not measured of live traffic"):
        await begin(store).offer(offered(metrics=(name,)))


async def test_a_lost_store_is_counted_and_the_traces_are_told_still():
    traces, before = Traces(), sample("rag_online_stored_total", outcome="lost")
    await measured(begin(LostStore(), ScriptedJudge(JUDGE), traces=traces), offered())
    assert sample("rag_online_stored_total", outcome="lost") == before + 1
    assert len(traces.sent) == 1


async def test_a_lost_embedder_costs_the_questions_drift_only(store):
    await measured(begin(store, ScriptedJudge(JUDGE), LostEmbedder()), offered())
    assert store.kept["acme", "ans_1"][1][0].value == 0.5


async def test_a_change_of_traffic_is_told(store):
    offers = begin(store, windows=Windows(reference=40, window=20, alpha=0.01))
    usual = [offered(f"ans_{n}", "drifting", ()) for n in range(40)]
    refused = [offered(f"ans_{n}", "drifting", (), finish="refused") for n in range(40, 60)]
    await measured(offers, *usual, *refused)
    assert sample("rag_online_drift_detected", tenant="drifting", kind="refusals") == 1
    assert sample("rag_online_drift_detected", tenant="drifting", kind="tool_mix") == 0
    assert sample("rag_online_drift_distance", tenant="drifting", kind="refusals") == 1
    assert sample("rag_online_drift_p_value", tenant="drifting", kind="refusals") < 0.01


def test_tenants_and_tools_beyond_the_bound_share_a_label():
    gauges = Gauges(most_tenants=1)
    for tenant in ("first-one", "second-one", "third-one"):
        gauges.saw(offered(tenant=tenant))
    assert sample("rag_online_answers_total", tenant="first-one", finish="answered") == 1
    assert sample("rag_online_answers_total", tenant="other", finish="answered") == 2


async def test_feedback_is_joined_by_answer_and_tells_whether_people_agree_with_the_judge(store):
    await measured(
        begin(store, ScriptedJudge(JUDGE)), offered("a"), offered("b"), offered("c", answer=""), offered("x", "other")
    )
    assert await store.put_feedback("acme", {"a": [1.0, 0.5], "b": [-1.0], "unknown": [1.0]}) == 2
    assert await store.agreement("acme") == [
        Agreement("faithfulness", "down", 0.5, 1),
        Agreement("faithfulness", "up", 0.5, 1),
    ]


async def test_words_that_come_later_and_words_that_change_are_joined(store):
    feedback = ScriptedFeedback()
    feedback.words["said"] = [Word("a", "ana", 1.0), Word("b", "ana", 1.0)]
    feedback.lost.add("lost")
    for name in "ab":
        await store.put(offered(name, "said"), [Score("faithfulness", 0.25 if name == "a" else 0.75)], "judge-8b")
    joining = Join(feedback, store, Gauges())
    await joining.join()
    assert store.feedback == {("said", "a"): 1.0, ("said", "b"): 1.0}
    feedback.words["said"] += [Word("a", "ana", -1.0), Word("b", "luis", 0.0)]
    await joining.join()
    assert store.feedback == {("said", "a"): -1.0, ("said", "b"): 0.5}
    assert sample("rag_online_score_by_feedback", tenant="said", metric="faithfulness", rating="down") == 0.25
    assert sample("rag_online_score_by_feedback", tenant="said", metric="faithfulness", rating="up") == 0.75


async def test_feedback_is_joined_while_the_service_runs(store):
    feedback = ScriptedFeedback()
    feedback.words["acme"] = [Word("ans_1", "ana", 1.0)]
    await store.put(offered(), [Score("faithfulness", 0.5)], "judge-8b")
    offers = begin(store, feedback=feedback)
    await offers.open()
    async with asyncio.timeout(60):
        while not store.feedback:
            await asyncio.sleep(0.01)
    await offers.close()
    assert store.feedback == {("acme", "ans_1"): 1.0}


async def test_the_memory_keeps_the_newest_only():
    store = MemoryScoreStore(most=2)
    for name in "abc":
        await store.put(offered(name), (), "")
    assert [answer for _, answer in store.kept] == ["b", "c"]


def test_a_tenant_may_name_the_metrics_that_there_are_and_no_others():
    found = Tenant.model_validate({"id": "t", "evaluation": {"sample": 0.1, "metrics": list(ONLINE_NAMES)}})
    assert found.evaluation.metrics == ONLINE_NAMES
    assert Tenant(id="t").evaluation.sample == 0
    for wrong in ({"metrics": ["context_recall"]}, {"sample": 1.5}, {"sample": -0.1}, {"judge": "x"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Tenant.model_validate({"id": "t", "evaluation": wrong})
