"""POST /v1/completions: straight to the pool that serves the model."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.admission import asked_of
from services.gateway.answer import AGENT
from services.gateway.errors import ApiError
from services.gateway.passing import pass_on
from services.gateway.pools.routing import ModelPools


class Completions:
    """The endpoint."""

    def __init__(self, pool: ModelPools) -> None:
        self._pool = pool

    async def complete(self, request: Request) -> Response:
        """A completion of a bare prompt; the agent converses, so it has none."""
        asked = asked_of(request)
        if asked["model"] == AGENT:
            message = f"model: `{AGENT}` answers at /v1/chat/completions and /v1/responses."
            raise ApiError(400, message, code="unsupported_parameter", param="model")
        return await pass_on(self._pool, request, "/v1/completions")
