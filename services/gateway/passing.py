"""Requests for models of the pools, passed on."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.admission import asked_of, caller_of
from services.gateway.pools.routing import ModelPools


async def pass_on(pools: ModelPools, request: Request, path: str) -> Response:
    """The answer of the pool that serves the model. `path`: such as `/v1/chat/completions`.

    Raises ApiError, ServiceError.
    """
    caller = caller_of(request)
    caller.require("models")
    return await pools.relay(request, caller, asked_of(request)["model"], path)
