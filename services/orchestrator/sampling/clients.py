"""Evaluation over gRPC, as the outbox wants it."""

from grpc import aio

from sabueso.evaluation.v1 import evaluation_pb2 as pb
from sabueso.evaluation.v1 import evaluation_pb2_grpc as rpc
from services.orchestrator.sampling.finished_answer import FinishedAnswer
from services.orchestrator.wire import duration
from services.runtime import errors
from services.runtime.channels import connect


class EvaluationClient:
    """Offers answers."""

    def __init__(self, address: str) -> None:
        self._channel = connect(address, pb.DESCRIPTOR.services_by_name["EvaluationService"])
        self._stub = rpc.EvaluationServiceStub(self._channel)

    async def offer(self, answer: FinishedAnswer, timeout_seconds: float) -> None:
        """See Evaluation."""
        try:
            await self._stub.Offer(_request(answer), timeout=timeout_seconds)
        except aio.AioRpcError as error:
            known = errors.from_rpc(error, "evaluation")
            raise known or errors.DependencyFailed("evaluation failed.", dependency="evaluation") from None

    async def close(self) -> None:
        """See Evaluation."""
        await self._channel.close()


def _request(answer: FinishedAnswer) -> pb.OfferRequest:
    end = answer.end
    return pb.OfferRequest(
        answer_id=end.answer_id,
        question=answer.question,
        answer=answer.answer,
        language=answer.language,
        finish=end.finish.value,
        passages=(pb.OfferedPassage(text=one.text, source=one.source, score=one.score) for one in answer.passages),
        calls=(pb.OfferedCall(tool=one.tool, arguments_json=one.arguments_json, turn=one.turn) for one in answer.calls),
        strategy=end.strategy,
        model=answer.model,
        trace_id=answer.trace_id,
        model_duration=duration(end.timings.model),
        tools_duration=duration(end.timings.tools),
        total_duration=duration(end.timings.total),
        prompt_tokens=end.usage.prompt_tokens,
        completion_tokens=end.usage.completion_tokens,
        degraded=answer.degraded,
        metrics=answer.metrics,
    )
