"""What requests learn of the end of the process."""

import pytest

from services.gateway.streams.drain import Draining, Shutdown, shutdown_of


@pytest.mark.parametrize("draining", [False, True])
async def test_connections_end_with_their_answers_while_the_process_drains(draining):
    shutdown, sent, seen = Shutdown(), [], []

    async def app(scope, receive, send):
        seen.append(shutdown_of(scope))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
        await send({"type": "http.response.body", "body": b"x"})

    async def send(message):
        sent.append(message)

    shutdown.draining = draining
    await Draining(app, shutdown)({"type": "http"}, None, send)
    assert seen == [shutdown]
    assert sent[0]["headers"] == [(b"x-a", b"1")] + [(b"connection", b"close")] * draining
    assert sent[1] == {"type": "http.response.body", "body": b"x"}


async def test_other_traffic_is_left_alone():
    async def app(scope, receive, send):
        assert scope == {"type": "lifespan"}

    await Draining(app, Shutdown())({"type": "lifespan"}, None, None)


def test_whoever_asked_is_called_once_at_the_end_and_not_after_leaving():
    shutdown, called = Shutdown(), []
    with shutdown.at_end(lambda: called.append("left")):
        pass
    with shutdown.at_end(lambda: called.append("there")):
        shutdown.end()
    with shutdown.at_end(lambda: called.append("late")):
        pass
    assert called == ["there", "late"]
