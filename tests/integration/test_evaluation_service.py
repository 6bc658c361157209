"""The evaluation service over gRPC, with a gateway over HTTP behind it."""

import asyncio
from dataclasses import replace

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError
from prometheus_client import CollectorRegistry

from sabueso.evaluation.v1 import evaluation_pb2 as pb
from sabueso.evaluation.v1 import evaluation_pb2_grpc as rpc
from services.evaluation.config import Settings
from services.evaluation.gauges import RunGauges
from services.evaluation.golden import lock as locking
from services.evaluation.golden import sets
from services.evaluation.golden.item import ExpectedCall
from services.evaluation.server import build
from services.runtime.testing import act_as, running
from tests.unit.evaluation.runs.gateway_server import KEY, GatewayServer, agent_body, listening
from tests.unit.evaluation.runs.test_whole_run import answer
from tests.unit.evaluation.runs.world import ITEMS, golden

OVER = (pb.RUN_STATUS_DONE, pb.RUN_STATUS_FAILED, pb.RUN_STATUS_CANCELLED)


class World:
    """A service with one golden set, for the tenant acme."""

    def __init__(self, tmp_path, url, registry, dsn="memory:"):
        for folder in ("golden", "secrets", "runs"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "secrets" / "acme.key").write_text(f"{KEY}\n")
        sets.write_about(tmp_path / "golden" / "small", golden().about)
        sets.write_half(tmp_path / "golden" / "small", "dev", ITEMS)
        self.runs = tmp_path / "runs"
        self.settings = Settings(
            identity_secret="0" * 64,
            golden_dir=tmp_path / "golden",
            gateway_url=url,
            gateway_keys_dir=tmp_path / "secrets",
            runs_dir=self.runs,
            results_dsn=dsn,
            embedding_address="127.0.0.1:1",
        )
        self.served = build(self.settings, RunGauges(registry))


@pytest.fixture
async def gateway():
    server = GatewayServer(answer)
    async with listening(server) as url:
        server.url = url
        yield server


@pytest.fixture
async def service(gateway, tmp_path):
    registry = CollectorRegistry()
    world = World(tmp_path, gateway.url, registry)
    async with running(world.served) as channel:
        stub = rpc.EvaluationServiceStub(channel)
        stub.registry, stub.runs = registry, world.runs
        stub.golden, stub.secrets = tmp_path / "golden", tmp_path / "secrets"
        act_as("acme")
        yield stub


def asked_by_sql(statement):
    body = agent_body("Two [1].")
    (call,) = body["sabueso"]["steps"][0]["calls"]
    call["tool"], call["arguments"] = "sql_query", {"query": statement}
    return body


async def over(stub, run_id):
    async with asyncio.timeout(60):
        while True:
            run = (await stub.GetRun(pb.GetRunRequest(run_id=run_id))).run
            if run.status in OVER:
                return run
            await asyncio.sleep(0.05)


async def test_a_run_is_made_behind_the_call_measured_reported_and_shown_to_prometheus(service):
    variant = pb.Variant(name="rag", settings={"strategy": "rag"})
    made = (await service.Evaluate(pb.EvaluateRequest(golden_set="small", variants=[variant]))).run
    assert made.status in (pb.RUN_STATUS_WAITING, pb.RUN_STATUS_RUNNING)
    run = await over(service, made.run_id)
    assert (run.status, run.reason, run.done_count, run.wanted_count) == (pb.RUN_STATUS_DONE, "", 16, 16)
    found = {(one.variant, one.metric, one.stratum, one.language): one for one in run.measurements}
    assert found["rag", "tool_selection_accuracy", "all", "all"].mean == 1
    assert found["constant answer", "refusal_accuracy", "all", "es"].scored_count == 1
    assert {one.HasField("estimate") == bool(one.scored_count) for one in run.measurements} == {True}
    assert (service.runs / "acme" / made.run_id / "report.html").exists()
    # The tenant has not opted in.
    labels = {"golden_set": "small", "tenant": "", "variant": "rag", "language": "all"}
    assert service.registry.get_sample_value("tool_selection_accuracy", labels) == 1
    assert service.registry.get_sample_value("rag_answer_coverage", {"golden_set": "small", "tenant": ""}) == 1
    assert service.registry.get_sample_value("rag_last_run_failed", {"golden_set": "small", "tenant": ""}) == 0


async def test_noise_is_mixed_in_for_whoever_wants_to_know_what_it_does(service):
    request = pb.EvaluateRequest(golden_set="small", without_baselines=True, noise_count=2)
    run = await over(service, (await service.Evaluate(request)).run.run_id)
    assert {one.variant for one in run.measurements} == {"agent", "given", "given, noise"}


async def test_a_test_half_is_read_for_a_reason_which_is_noted_with_the_caller(service):
    sealed = service.golden / "sealed"
    sets.write_about(sealed, golden().about)
    sets.write_half(sealed, "dev", ITEMS[2:])
    sets.write_half(sealed, "test", ITEMS[:2])
    locking.lock(sealed)
    act_as("acme", principal="key_1")
    request = pb.EvaluateRequest(golden_set="sealed", without_baselines=True, test_reason="release 3")
    run = await over(service, (await service.Evaluate(request)).run.run_id)
    assert (run.status, run.reason, run.wanted_count) == (pb.RUN_STATUS_DONE, "", 2)
    assert [(one.reader, one.reason) for one in locking.readings(sealed)] == [("key_1", "release 3")]


async def test_a_test_half_that_is_not_locked_is_not_read(service):
    request = pb.EvaluateRequest(golden_set="small", test_reason="release 3")
    run = await over(service, (await service.Evaluate(request)).run.run_id)
    assert run.status == pb.RUN_STATUS_FAILED
    assert "not locked" in run.reason


async def test_statements_are_judged_by_their_rows_where_a_tenant_has_a_database(service, gateway, postgres_server):
    statement = {"query": {"sql": "SELECT 2"}}
    item = replace(ITEMS[0], calls=(ExpectedCall("sql_query", statement),))
    sets.write_half(service.golden / "small", "dev", [item])
    gateway.agent = lambda question, options: asked_by_sql("SELECT 1 + 1 AS two")
    for dsn, scored in (("", 0), (postgres_server.dsn(), 1)):
        (service.secrets / "acme.dsn").write_text(dsn)
        request = pb.EvaluateRequest(golden_set="small", without_baselines=True)
        run = await over(service, (await service.Evaluate(request)).run.run_id)
        calls = [one for one in run.measurements if (one.metric, one.stratum) == ("call_accuracy", "all")]
        assert [(one.mean, one.scored_count) for one in calls if one.language == "all"] == [(1.0, 1)] * scored


async def test_a_statement_of_the_set_that_fails_is_named_in_the_reason(service, gateway, postgres_server):
    item = replace(ITEMS[0], calls=(ExpectedCall("sql_query", {"query": {"sql": "SELECT * FROM nothing"}}),))
    sets.write_half(service.golden / "small", "dev", [item])
    gateway.agent = lambda question, options: asked_by_sql("SELECT 1")
    (service.secrets / "acme.dsn").write_text(postgres_server.dsn())
    run = await over(service, (await service.Evaluate(pb.EvaluateRequest(golden_set="small"))).run.run_id)
    assert run.status == pb.RUN_STATUS_FAILED
    assert "an expected statement fails" in run.reason


async def test_runs_are_listed_for_their_tenant_only(service):
    made = (await service.Evaluate(pb.EvaluateRequest(golden_set="small", without_baselines=True))).run
    await over(service, made.run_id)
    listed = await service.ListRuns(pb.ListRunsRequest())
    assert [one.run_id for one in listed.runs] == [made.run_id]
    assert listed.next_page_token == ""
    act_as("other")
    assert not (await service.ListRuns(pb.ListRunsRequest())).runs
    with pytest.raises(AioRpcError) as failed:
        await service.GetRun(pb.GetRunRequest(run_id=made.run_id))
    assert failed.value.code() is StatusCode.NOT_FOUND


async def test_a_tenant_without_a_key_gets_a_run_that_failed_and_says_so(service):
    act_as("other")
    made = (await service.Evaluate(pb.EvaluateRequest(golden_set="small"))).run
    run = await over(service, made.run_id)
    assert (run.status, run.reason) == (
        pb.RUN_STATUS_FAILED,
        "there is no key of tenant other to ask the gateway with",
    )


async def test_a_run_is_cancelled(service, gateway):
    hanging = asyncio.Event()
    gateway.agent = lambda question, options: hanging.wait()
    made = (await service.Evaluate(pb.EvaluateRequest(golden_set="small"))).run
    cancelled = (await service.CancelRun(pb.CancelRunRequest(run_id=made.run_id))).run
    assert cancelled.status == pb.RUN_STATUS_CANCELLED
    assert (await over(service, made.run_id)).status == pb.RUN_STATUS_CANCELLED


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pb.EvaluateRequest(), StatusCode.INVALID_ARGUMENT),
        (pb.EvaluateRequest(golden_set="../small"), StatusCode.NOT_FOUND),
        (pb.EvaluateRequest(golden_set="small", metrics=["beauty"]), StatusCode.INVALID_ARGUMENT),
        (pb.EvaluateRequest(golden_set="small", question_limit=-1), StatusCode.INVALID_ARGUMENT),
        (pb.EvaluateRequest(golden_set="small", noise_count=21), StatusCode.INVALID_ARGUMENT),
        (pb.EvaluateRequest(golden_set="small", noise_count=-1), StatusCode.INVALID_ARGUMENT),
        (
            pb.EvaluateRequest(golden_set="small", variants=[pb.Variant(name="a", settings={"kind": "magic"})]),
            StatusCode.INVALID_ARGUMENT,
        ),
        (
            pb.EvaluateRequest(golden_set="small", variants=[pb.Variant(name="a", settings={"top_k": "["})]),
            StatusCode.INVALID_ARGUMENT,
        ),
    ],
)
async def test_what_cannot_be_run_is_refused_at_once(service, request_, code):
    with pytest.raises(AioRpcError) as failed:
        await service.Evaluate(request_)
    assert failed.value.code() is code
