"""GET and DELETE /v1/responses/{id}, and its input: a stored answer, told again or forgotten."""

from collections.abc import AsyncGenerator, Awaitable
from typing import Annotated, TypeVar

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.agent import SESSION_ID, agents_caller
from services.gateway.answer import ANSWER_PREFIX, Answer, answer_id_of
from services.gateway.clients import CALL_SECONDS, Clients, answer_of
from services.gateway.errors import ApiError
from services.gateway.kept import read_memo
from services.gateway.responses.asked import ResponsesRequest, echo
from services.gateway.responses.endpoint import ResponseEvents
from services.gateway.responses.input_items import Order, items_of, page, without_input
from services.gateway.responses.output import Output
from services.gateway.responses.resuming import leave_out_known
from services.gateway.streams.pieces import event_stream
from services.runtime.errors import NotFound

Id = Annotated[str, Path(pattern=SESSION_ID)]
After = Annotated[int, Query(ge=-1)]
AfterItem = Annotated[str | None, Query(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=100)]
T = TypeVar("T")


class KeptResponses:
    """The endpoints. A caller, a key or a person, has its own answers, and those of chat completions too."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def get_one(
        self, request: Request, response_id: Id, stream: bool = False, starting_after: After = -1
    ) -> Response:
        """The response as it was given; or its events as they came, those after number `starting_after` of them."""
        agents_caller(request)
        kept, uid = await self._kept(response_id)
        memo = read_memo(kept.memo)
        answer = Answer(memo.cache_mode, uid, memo.began, with_evidence=memo.with_evidence)
        # What was a chat completion repeats nothing of a request to this API.
        echoed = without_input(memo.echoed) or echo({}, ResponsesRequest(input="-"))
        output = Output(answer, echoed, with_steps=memo.with_steps)
        if stream:
            leave_out_known(request, starting_after)
            return event_stream(_told(kept, answer, ResponseEvents(output)))
        for event in kept.events:
            list(output.add(event, answer.add(event)))
        return JSONResponse(list(output.end())[-1]["response"])

    async def list_input(
        self,
        request: Request,
        response_id: Id,
        after: AfterItem = None,
        limit: Limit = 20,
        order: Order = "desc",
    ) -> JSONResponse:
        """What the response was asked with: the items of its own request, the last one first."""
        agents_caller(request)
        kept, uid = await self._kept(response_id)
        return JSONResponse(page(items_of(read_memo(kept.memo).echoed, uid), after, limit, order))

    async def delete_one(self, request: Request, response_id: Id) -> JSONResponse:
        """Deletes one question with its answer; what followed it then follows what came before it."""
        agents_caller(request)
        named = pb.DeleteSessionRequest(answer_id=answer_id_of(response_id))
        forgetting = self._clients.orchestrator.DeleteSession(named, timeout=CALL_SECONDS)
        gone = await _found(forgetting, response_id)
        facts = {"id": response_id, "object": "response", "deleted": True, "answer_count": gone.answer_count}
        return JSONResponse(facts)

    async def _kept(self, response_id: str) -> tuple[pb.GetAnswerResponse, str]:
        """The stored answer, and what its ids have in common."""
        answer_id = answer_id_of(response_id)
        asking = self._clients.orchestrator.GetAnswer(pb.GetAnswerRequest(answer_id=answer_id), timeout=CALL_SECONDS)
        return await _found(asking, response_id), answer_id.removeprefix(ANSWER_PREFIX)


async def _found(asking: Awaitable[T], response_id: str) -> T:
    try:
        return await answer_of("orchestrator", asking)
    except NotFound:
        problem = f"There is no response `{response_id[:100]}`: it was not stored, or is kept no more."
        raise ApiError(404, problem, code="response_not_found", param="response_id") from None


async def _told(kept: pb.GetAnswerResponse, answer: Answer, events: ResponseEvents) -> AsyncGenerator[bytes]:
    for piece in events.begin():
        yield piece
    for event in kept.events:
        for piece in events.add(event, answer.add(event)):
            yield piece
    for piece in events.end():
        yield piece
