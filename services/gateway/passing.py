"""Requests for models of the pools, passed on; and the model of a pool that the agent is to ask."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.admission import asked_of, caller_of
from services.gateway.agent import Question
from services.gateway.pools.routing import ModelPools


async def pass_on(pools: ModelPools, request: Request, path: str) -> Response:
    """The answer of the pool that serves the model. `path`: such as `/v1/chat/completions`.

    Raises ApiError, ServiceError.
    """
    caller = caller_of(request)
    caller.require("models")
    return await pools.relay(request, caller, asked_of(request)["model"], path)


async def with_served_model(pools: ModelPools, request: Request, question: Question) -> Question:
    """The question, its model by its served name. Raises ApiError where the key may not ask it."""
    extras = question.extras
    if not extras.model:
        return question
    served = await pools.require(caller_of(request), extras.model, "sabueso.model")
    return replace(question, extras=extras.model_copy(update={"model": served}))
