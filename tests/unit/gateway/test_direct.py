"""Endpoints that are called without FastAPI between."""

import pytest
from fastapi.routing import APIRoute
from starlette.responses import PlainTextResponse

from services.gateway.direct import DirectRoutes
from services.gateway.errors import ApiError
from services.runtime.errors import DependencyFailed

PATH = "/v1/direct"


async def ask(endpoint, *, path=PATH, method="POST"):
    """Status and body of the answer; None where the request went on."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        raise AssertionError("nobody reads here")

    async def framework(scope, receive, send):
        sent.append(None)

    app = DirectRoutes(framework, [APIRoute(PATH, endpoint, methods=["POST"], response_model=None)], {PATH})
    scope = {"type": "http", "path": path, "method": method, "headers": [], "state": {}}
    await app(scope, receive, send)
    return None if sent == [None] else (sent[0]["status"], sent[1]["body"], scope["route"].path)


async def hello(request):
    return PlainTextResponse(request.method)


async def test_a_direct_endpoint_is_called_and_its_route_is_known():
    assert await ask(hello) == (200, b"POST", PATH)


@pytest.mark.parametrize(("path", "method"), [("/v1/other", "POST"), (PATH, "GET"), (PATH + "/", "POST")])
async def test_whatever_else_comes_goes_on(path, method):
    assert await ask(hello, path=path, method=method) is None


@pytest.mark.parametrize(
    ("error", "status"),
    [(ApiError(409, "no", code="x"), 409), (DependencyFailed("lost", dependency="model pool"), 503)],
)
async def test_a_failure_is_answered_as_everywhere(error, status):
    async def fail(request):
        raise error

    answered, body, _ = await ask(fail)
    assert answered == status
    assert b'"error"' in body


async def test_a_bug_is_left_to_who_answers_bugs():
    async def err(request):
        raise KeyError("ours")

    with pytest.raises(KeyError):
        await ask(err)
