"""From a question to its scores: the orchestrator answers over real sockets, and evaluation gets its share."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from sabueso.evaluation.v1 import evaluation_pb2, evaluation_pb2_grpc
from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.evaluation.judge.lexical import LexicalJudge
from services.evaluation.online.feedback import GatewayFeedback
from services.evaluation.online.offers import Measuring, Offers
from services.evaluation.online.service import OffersServicer
from services.evaluation.online.store import MemoryScoreStore
from services.runtime import context
from services.runtime.context import ALL_LABELS
from services.runtime.errors import DependencyFailed
from services.runtime.server import Served
from services.runtime.testing import act_as, listening
from tests.integration.gateway_stack import gateway_stack
from tests.integration.test_orchestrator import COUNT, SEARCH, calling, of, saying, text_of, world

ASKED = "¿Qué penalización hay? Escribe a ana.perez@acme.test"
ANSWER = "Hay una penalización por retraso del 2 % mensual [1]. Son 47 contratos [2]."
ALL = {"evaluation": {"sample": 1, "metrics": ["faithfulness"]}}


class Servicer(OffersServicer, evaluation_pb2_grpc.EvaluationServiceServicer):
    """Notes who calls; may hang."""

    def __init__(self, offers, *, hangs=False):
        self.offers, self.hangs, self.callers = offers, hangs, []
        self.called = asyncio.Event()

    async def Offer(self, request, ctx):
        self.callers.append(context.identity())
        self.called.set()
        if self.hangs:
            await asyncio.Event().wait()
        return await super().Offer(request, ctx)


@asynccontextmanager
async def evaluating(**more):
    store = MemoryScoreStore()
    offers = Offers(Measuring(LexicalJudge()), store, act_as)
    servicer = Servicer(offers, **more)
    descriptor = evaluation_pb2.DESCRIPTOR.services_by_name["EvaluationService"]
    add = evaluation_pb2_grpc.add_EvaluationServiceServicer_to_server
    async with listening(Served(servicer, add, descriptor, warm_up=offers.open, close=offers.close)) as address:
        yield address, servicer, store


async def answered(it, **options):
    act_as("acme", principal="ana", labels=[ALL_LABELS])
    it.model.replies = [calling(SEARCH, COUNT), saying(ANSWER)]
    return await it.ask(ASKED, **options)


async def test_an_answer_of_a_tenant_who_wants_it_is_measured_and_tells_nobody(tmp_path):
    async with (
        evaluating() as (address, servicer, store),
        world(tmp_path, tenant=ALL, evaluation_address=address) as it,
    ):
        responses = await answered(it, answer_id="ans_mine")
        async with asyncio.timeout(60):
            while not store.kept:
                await asyncio.sleep(0.01)
    offered, scores, _ = store.kept["acme", "ans_mine"]
    one = offered.answered
    assert one.question == "¿Qué penalización hay? Escribe a [EMAIL_1]"
    assert one.answer == text_of(responses)
    assert (one.language, one.finish, one.model, one.strategy) == ("es", "answered", "llama", "react")
    assert [passage.source for passage in one.passages] == ["c-7", "main"]
    assert [(call.tool, call.turn) for call in one.calls] == [("vector_search", 0), ("sql_query", 0)]
    assert one.milliseconds["total"] > 0
    assert "reranking" in one.degraded
    assert [score.metric for score in scores] == ["faithfulness"]
    (caller,) = servicer.callers
    assert (caller.tenant, caller.principal, caller.labels, caller.scopes) == ("acme", "", (), ())
    assert not of(responses, "evidence")
    assert responses[-1].finished.answer_id == "ans_mine"


@pytest.mark.parametrize("tenant", [{}, {"evaluation": {"sample": 0}}])
async def test_without_a_word_in_the_tenants_file_nothing_leaves(tmp_path, tenant):
    async with evaluating() as (address, servicer, _), world(tmp_path, tenant=tenant, evaluation_address=address) as it:
        responses = await answered(it)
        assert responses[-1].finished.finish == pb.FINISH_ANSWERED
    assert servicer.callers == []


async def test_an_evaluation_that_hangs_changes_nothing(tmp_path):
    async with (
        evaluating(hangs=True) as (address, servicer, _),
        world(tmp_path, tenant=ALL, evaluation_address=address) as it,
    ):
        for _ in range(4):
            responses = await answered(it, include_evidence=True)
            assert responses[-1].finished.finish == pb.FINISH_ANSWERED
            assert [one.source.mark for one in of(responses, "evidence")] == [1, 2]
        await asyncio.wait_for(servicer.called.wait(), 60)


async def test_an_evaluation_that_is_away_changes_nothing(tmp_path):
    async with world(tmp_path, tenant=ALL, evaluation_address="127.0.0.1:1") as it:
        responses = await answered(it)
        assert responses[-1].finished.finish == pb.FINISH_ANSWERED


async def test_what_people_said_is_read_from_the_gateway(tmp_path):
    (tmp_path / "tenants").mkdir()
    (tmp_path / "web").mkdir()
    (tmp_path / "keys").mkdir()
    async with gateway_stack(tmp_path / "tenants", tmp_path / "web") as stack:
        url = str(stack.http.base_url).rstrip("/").removesuffix("/v1")
        feedback = GatewayFeedback(url, tmp_path / "keys")
        assert feedback.tenants() == []
        bearer = stack.headers("demo", "chief")["authorization"].removeprefix("Bearer ")
        (tmp_path / "keys" / "demo.key").write_text(f"{bearer}\n")
        assert feedback.tenants() == ["demo"]
        assert await feedback.since("demo", "") == ([], "")
        answer_id = (await stack.ask("¿Cuántos contratos?")).json()["sabueso"]["answer_id"]
        for body in ({"rating": "up", "user": "ana"}, {"score": -0.5}):
            said = {"answer_id": answer_id, **body}
            assert (await stack.http.post("/v1/feedback", json=said, headers=stack.headers())).status_code == 201
        words, after = await feedback.since("demo", "")
        assert [(one.answer_id, one.score) for one in words] == [(answer_id, 1.0), (answer_id, -0.5)]
        assert len({one.who for one in words}) == 2
        assert await feedback.since("demo", after) == ([], after)
        reader = stack.headers("demo", "reader")["authorization"].removeprefix("Bearer ")
        (tmp_path / "keys" / "demo.key").write_text(reader)
        with pytest.raises(DependencyFailed, match="HTTP 403"):
            await feedback.since("demo", "")
        await feedback.close()
    absent = GatewayFeedback("http://127.0.0.1:1", tmp_path / "keys")
    with pytest.raises(DependencyFailed, match="ConnectError"):
        await absent.since("demo", "")
    await absent.close()
