"""Live traffic from the orchestrator's offer to PostgreSQL and Langfuse, over real sockets."""

import asyncio
import base64
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest
import uvicorn
from prometheus_client import REGISTRY, CollectorRegistry
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from sabueso.evaluation.v1 import evaluation_pb2, evaluation_pb2_grpc
from services.evaluation import server
from services.evaluation.config import Settings
from services.evaluation.gauges import RunGauges
from services.evaluation.judge.lexical import LexicalJudge
from services.evaluation.online.langfuse import LangfuseScores
from services.evaluation.online.offers import Measuring, Offers
from services.evaluation.online.postgres_scores import PostgresScoreStore
from services.evaluation.online.service import OffersServicer
from services.evaluation.online.store import Agreement, MemoryScoreStore
from services.evaluation.score import Score, Status
from services.orchestrator.events import CallStarted, Finish, Finished, Shown, Text, Timings
from services.orchestrator.model import Usage
from services.orchestrator.results import Passage, Rows
from services.orchestrator.sampling.clients import EvaluationClient
from services.orchestrator.sampling.finished_answer import answer_of
from services.orchestrator.sampling.outbox import Outbox
from services.runtime.errors import DependencyFailed, InvalidField, Overloaded
from services.runtime.server import Served
from services.runtime.testing import SECRET, act_as, listening
from tests.unit.evaluation.online.world import offered

TRACE = "0af7651916cd43dd8448eb211c80319c"
FIELDS = {"id", "traceId", "name", "value", "dataType", "metadata"}


class Langfuse:
    """Takes scores in the documented shape of CreateScoreRequest. `answers`: statuses of the next requests."""

    def __init__(self, *answers):
        self.scores = {}
        self.asked = 0
        self.answers = list(answers)

    async def create(self, request):
        self.asked += 1
        if request.headers.get("authorization") != f"Basic {base64.b64encode(b'pk-1:sk-1').decode()}":
            return JSONResponse({"message": "Invalid credentials"}, 401)
        status = self.answers.pop(0) if self.answers else 200
        if status != 200:
            return JSONResponse({"message": "no"}, status)
        body = await request.json()
        if set(body) != FIELDS or body["dataType"] != "NUMERIC" or not isinstance(body["value"], float):
            return JSONResponse({"message": "Invalid request data"}, 400)
        self.scores[body["id"]] = body
        return JSONResponse({"id": body["id"]})


@asynccontextmanager
async def serving(langfuse):
    app = Starlette(routes=[Route("/api/public/scores", langfuse.create, methods=["POST"])])
    web = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    task = asyncio.create_task(web.serve())
    async with asyncio.timeout(60):
        while not web.started:
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"
    finally:
        web.should_exit = True
        await task


def counted(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0


SCORES = [
    Score("faithfulness", 0.75, claim_count=4),
    Score("answer_relevance", None, Status.OVER_BUDGET),
    Score("completeness", 1.0),
]


# ---- Langfuse


async def test_scores_reach_langfuse_in_the_documented_shape_and_twice_is_once():
    langfuse = Langfuse()
    async with serving(langfuse) as url:
        scores = LangfuseScores(f"{url}/", "pk-1", "sk-1")
        for _ in range(2):
            await scores.send(offered(), SCORES, "judge-8b")
        await scores.close()
    assert set(langfuse.scores) == {"ans_1-faithfulness", "ans_1-completeness"}
    assert langfuse.scores["ans_1-faithfulness"] == {
        "id": "ans_1-faithfulness",
        "traceId": TRACE,
        "name": "faithfulness",
        "value": 0.75,
        "dataType": "NUMERIC",
        "metadata": {"judge": "judge-8b", "answer_id": "ans_1", "claim_count": 4},
    }


async def test_an_answer_without_a_trace_has_nothing_to_attach_to():
    langfuse = Langfuse()
    async with serving(langfuse) as url:
        scores = LangfuseScores(url, "pk-1", "sk-1")
        await scores.send(offered(trace_id=""), SCORES, "")
        await scores.close()
    assert langfuse.asked == 0


@pytest.mark.parametrize(
    ("statuses", "tries", "arrives"), [([429, 503], 3, True), ([500] * 3, 3, False), ([403], 1, False)]
)
async def test_what_may_help_is_tried_again_and_a_loss_is_counted(statuses, tries, arrives):
    langfuse, lost = Langfuse(*statuses), counted("rag_online_langfuse_scores_total", outcome="lost")
    async with serving(langfuse) as url:
        scores = LangfuseScores(url, "pk-1", "sk-1", wait_seconds=0.01)
        await scores.send(offered(), SCORES[:1], "")
        await scores.close()
    assert (langfuse.asked, bool(langfuse.scores)) == (tries, arrives)
    assert counted("rag_online_langfuse_scores_total", outcome="lost") == lost + (not arrives)


async def test_wrong_keys_and_an_absent_server_are_losses_and_no_errors():
    lost = counted("rag_online_langfuse_scores_total", outcome="lost")
    async with serving(Langfuse()) as url:
        scores = LangfuseScores(url, "pk-1", "wrong")
        await scores.send(offered(), SCORES[:1], "")
        await scores.close()
    absent = LangfuseScores(url, "pk-1", "sk-1")
    await absent.send(offered(), SCORES[:1], "")
    await absent.close()
    assert counted("rag_online_langfuse_scores_total", outcome="lost") == lost + 2


# ---- the stores, by one contract


@pytest.fixture
async def dsn(postgres_server):
    name = "online_scores"
    connection = await asyncpg.connect(postgres_server.dsn())
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return postgres_server.dsn(name)


@pytest.fixture(params=["memory", "postgres"])
async def store(request, dsn):
    if request.param == "memory":
        yield MemoryScoreStore()
        return
    made = PostgresScoreStore(dsn)
    await made.open()
    yield made
    await made.close()


async def test_feedback_shows_whether_people_agree_with_the_judge(store):
    for name, value in (("a", 1.0), ("b", 0.5), ("c", 0.25), ("d", None)):
        status = Status.OK if value is not None else Status.JUDGE_FAILED
        await store.put(offered(name), [Score("faithfulness", value, status)], "judge-8b")
    await store.put(offered("a", "other"), [Score("faithfulness", 0.0)], "judge-8b")
    await store.put(offered("a"), [Score("faithfulness", 0.75)], "judge-8b")
    assert await store.put_feedback("acme", {"a": [1.0, 0.5], "b": [-1.0], "nobody": [1.0]}) == 2
    assert await store.put_feedback("acme", {}) == 0
    assert await store.agreement("acme") == [
        Agreement("faithfulness", "down", 0.5, 1),
        Agreement("faithfulness", "none", 0.25, 1),
        Agreement("faithfulness", "up", 0.75, 1),
    ]


async def test_postgresql_keeps_no_word_of_it_and_forgets_after_the_retention(dsn):
    store = PostgresScoreStore(dsn)
    again = PostgresScoreStore(dsn)
    await asyncio.gather(store.open(), again.open())
    await store.put(offered("old"), SCORES, "judge-8b")
    await store.put(offered("new"), SCORES, "judge-8b")
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("SELECT * FROM evaluation.online_answers, evaluation.online_scores")
    assert "penalty" not in repr(rows)
    await connection.execute(
        "UPDATE evaluation.online_answers SET measured_at = now() - interval '91 days' WHERE answer_id = 'old'"
    )
    assert await again.forget(90) == 1
    left = await connection.fetch("SELECT DISTINCT answer_id FROM evaluation.online_scores")
    assert [row[0] for row in left] == ["new"]
    await connection.close()
    await store.close()
    await again.close()


async def test_a_lost_postgresql_is_named():
    store = PostgresScoreStore("postgresql://nobody@127.0.0.1:1/nothing", timeout_seconds=5)
    with pytest.raises(DependencyFailed, match="PostgreSQL cannot be reached"):
        await store.open()
    await store.close()


# ---- over gRPC, as the orchestrator offers


class Servicer(OffersServicer, evaluation_pb2_grpc.EvaluationServiceServicer):
    def __init__(self, offers):
        self.offers = offers


def evaluation(offers):
    descriptor = evaluation_pb2.DESCRIPTOR.services_by_name["EvaluationService"]
    add = evaluation_pb2_grpc.add_EvaluationServiceServicer_to_server
    return Served(Servicer(offers), add, descriptor, warm_up=offers.open, close=offers.close)


def finished_answer():
    passage = Passage("c-7", "1", "Contract 7", "c.pdf", 1, "8.3", "en", "The penalty is 2 % a month.", score=0.5)
    events = [
        CallStarted(1, "c1", "vector_search", '{"query": "penalty"}'),
        CallStarted(1, "c2", "sql_query", "broken {"),
        Text("The penalty is 2 % a month [1]. "),
        Text("Ask ana.perez@acme.test."),
        Shown(1, passage, True),
        Shown(2, Rows("SELECT 1", "[]", ("n",), ((1,),)), False),
    ]
    end = Finished("ans_9", Finish.ANSWERED, "", 2, Usage(100, 20), Timings(1.5, 0.5, 0.0, 0.25), 0)
    return answer_of("What is the penalty?", events, end)


def acting(tenant):
    act_as(tenant, principal="")


async def test_an_offer_arrives_whole_without_a_person_in_it():
    store = MemoryScoreStore()
    offers = Offers(Measuring(LexicalJudge()), store, acting)
    async with listening(evaluation(offers)) as address:
        client = EvaluationClient(address)
        outbox = Outbox(client, acting, timeout_seconds=60)
        answer = finished_answer()
        outbox.put("acme-offers", answer, anonymise=True)
        async with asyncio.timeout(60):
            while not store.kept:
                await asyncio.sleep(0.01)
        await outbox.close()
    ((tenant, answer_id),) = store.kept
    kept, scores, judge = store.kept[tenant, answer_id]
    one = kept.answered
    assert (tenant, answer_id, judge, scores) == ("acme-offers", "ans_9", "lexical-stand-in", ())
    assert one.answer == "The penalty is 2 % a month [1]. Ask [EMAIL_1]."
    assert [(p.source, p.score) for p in one.passages] == [("c-7", 0.5), ("sql", None)]
    assert [(c.tool, c.turn, c.valid) for c in one.calls] == [("vector_search", 0, True), ("sql_query", 0, False)]
    assert one.milliseconds == {"model": 1500.0, "tools": 500.0, "total": 2250.0}
    assert one.tokens == {"prompt": 100, "completion": 20}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"answer_id": ""}, "answer_id"),
        ({"question": ""}, "question"),
        ({"finish": "done"}, "finish"),
        ({"metrics": ["context_recall"]}, "not measured of live traffic"),
    ],
)
async def test_a_wrong_offer_is_refused_by_name(wrong, says):
    fields = {"answer_id": "a", "question": "q", "finish": "answered"} | wrong
    servicer = Servicer(Offers(Measuring(), MemoryScoreStore(), acting))
    act_as("acme")
    with pytest.raises(InvalidField, match=says):
        await servicer.Offer(evaluation_pb2.OfferRequest(**fields), None)


async def test_the_orchestrator_learns_that_the_queue_is_full_or_that_nobody_is_there():
    offers = Offers(Measuring(), MemoryScoreStore(), acting, most_waiting=1, workers=0)
    async with listening(evaluation(offers)) as address:
        client = EvaluationClient(address)
        act_as("acme")
        await client.offer(finished_answer(), 60)
        other = replace(finished_answer(), end=replace(finished_answer().end, answer_id="ans_10"))
        with pytest.raises(Overloaded):
            await client.offer(other, 60)
        await client.close()
    client = EvaluationClient(address)
    with pytest.raises(DependencyFailed):
        await client.offer(finished_answer(), 60)
    await client.close()


async def test_the_service_as_it_is_built_takes_offers(tmp_path):
    settings = Settings(
        identity_secret=SECRET, golden_dir=tmp_path, runs_dir=tmp_path, gateway_keys_dir=tmp_path, online_workers=1
    )
    before = counted("rag_online_answers_total", tenant="built", finish="answered")
    async with listening(server.build(settings, RunGauges(CollectorRegistry()))) as address:
        client = EvaluationClient(address)
        act_as("built")
        await client.offer(finished_answer(), 60)
        async with asyncio.timeout(60):
            while counted("rag_online_answers_total", tenant="built", finish="answered") == before:
                await asyncio.sleep(0.01)
        await client.close()
