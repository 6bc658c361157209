"""An evaluation that was accepted ends, whatever is killed meanwhile."""

import asyncio
import time

import pytest
from grpc import StatusCode, aio

from sabueso.evaluation.v1 import evaluation_pb2 as pb
from sabueso.evaluation.v1 import evaluation_pb2_grpc as rpc
from services.runtime import context
from services.runtime.channels import connect
from services.runtime.identity import Signer
from tests.chaos.stack import ChaosStack
from tests.chaos.watching import until_whole

pytestmark = pytest.mark.timeout(300, func_only=True)
_LASTS_SECONDS = 200
_OPEN = (pb.RUN_STATUS_RUNNING, pb.RUN_STATUS_WAITING)


async def run_of(evaluation: rpc.EvaluationServiceStub, run_id: str) -> pb.Run | None:
    """The run; None while nobody can say."""
    try:
        return (await evaluation.GetRun(pb.GetRunRequest(run_id=run_id), timeout=10)).run
    except aio.AioRpcError as error:
        if error.code() not in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED):
            raise
        return None


async def evaluated(stack: ChaosStack, victim: str) -> pb.Run:
    """Killed once the first answer is there."""
    identity = context.Identity("demo", "chaos")
    token = Signer((stack.home / "identity-secret").read_text()).sign(identity)
    context.enter(context.CallContext(identity, token))
    async with connect(f"127.0.0.1:{stack.ports['evaluation']}") as channel:
        evaluation = rpc.EvaluationServiceStub(channel)
        asked = pb.EvaluateRequest(golden_set="tools", without_baselines=True, question_limit=6)
        run = (await evaluation.Evaluate(asked, timeout=30)).run
        deadline, is_killed = time.monotonic() + _LASTS_SECONDS, False
        while True:
            now = await run_of(evaluation, run.run_id)
            if now is not None and not is_killed and now.done_count:
                await asyncio.to_thread(stack.kill, victim)
                await asyncio.to_thread(stack.until_serving, victim)
                is_killed = True
            elif now is not None and now.status not in _OPEN:
                await until_whole(stack)
                return now
            assert time.monotonic() < deadline, now
            await asyncio.sleep(0.1)


def test_an_evaluation_ends_when_its_database_is_started_anew(stack: ChaosStack) -> None:
    run = asyncio.run(evaluated(stack, "postgres"))
    assert run.status == pb.RUN_STATUS_DONE, run.reason
    assert run.done_count == run.wanted_count


def test_an_evaluation_whose_service_is_killed_is_said_to_have_ended(stack: ChaosStack) -> None:
    """Its answers are not asked for again: whoever wants the figures starts another run."""
    run = asyncio.run(evaluated(stack, "evaluation"))
    assert run.status in (pb.RUN_STATUS_DONE, pb.RUN_STATUS_FAILED)
    assert run.status == pb.RUN_STATUS_DONE or "stopped" in run.reason, run.reason
