import asyncio

import pytest

from services.gateway.errors import ApiError
from services.gateway.incoming import Incoming
from services.gateway.line import HungUp, Line
from services.gateway.streams.drain import Shutdown


class Wire:
    """ASGI's two ends, scripted: messages to receive, then silence until `hang_up`."""

    def __init__(self, *messages):
        self.messages = list(messages)
        self.sent = []
        self.hang_up = asyncio.Event()

    async def receive(self):
        if self.messages:
            return self.messages.pop(0)
        await self.hang_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    def line(self, *headers):
        return Line({"headers": headers}, self.receive, self.send)


def part(body, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


CHUNKED = (b"transfer-encoding", b"chunked")
END = {"type": "http.response.body", "body": b"no"}


@pytest.mark.parametrize("headers", [(CHUNKED,), ()])
async def test_a_hang_up_while_working_cancels_the_work(headers):
    wire = Wire(part(b"x" if headers else b""))
    line = wire.line(*headers)
    cancelled = asyncio.Event()

    async def work():
        await line.receive()
        wire.hang_up.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(HungUp):
        await line.serve(work())
    assert cancelled.is_set()


async def test_a_hang_up_while_the_body_comes_cancels_the_work():
    wire = Wire(part(b"x", more=True))
    wire.hang_up.set()
    line = wire.line(CHUNKED)

    async def work():
        while True:
            await line.receive()

    with pytest.raises(HungUp):
        await line.serve(work())


async def test_what_is_left_to_do_after_the_answer_is_not_cancelled():
    wire = Wire(part(b"x"))
    line = wire.line(CHUNKED)
    done = asyncio.Event()

    async def work():
        await line.receive()
        await line.send(END)
        wire.hang_up.set()
        await asyncio.sleep(0.05)
        done.set()

    await line.serve(work())
    assert done.is_set()


async def test_a_cancelled_server_is_no_hang_up():
    line = Wire(part(b"x")).line(CHUNKED)
    serving = asyncio.create_task(line.serve(asyncio.sleep(60)))
    await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_a_body_is_counted_as_it_comes():
    line = Wire(part(b"x" * 6, more=True), part(b"x" * 6)).line(CHUNKED)
    line.limit(10)
    await line.receive()
    with pytest.raises(ApiError) as caught:
        await line.receive()
    assert caught.value.status_code == 413


async def test_a_body_of_which_no_more_comes_is_waited_for_no_longer():
    line = Wire(part(b"x", more=True)).line(CHUNKED)
    line.limit(10, silence_seconds=0.05)
    await line.receive()
    with pytest.raises(ApiError) as caught:
        await line.receive()
    assert (caught.value.status_code, caught.value.code) == (408, "request_timeout")


async def test_an_announced_body_is_refused_before_it_comes():
    with pytest.raises(ApiError):
        Wire().line((b"content-length", b"11")).limit(10)


async def test_an_early_answer_is_ended_after_the_body_was_heard():
    wire = Wire(part(b"x", more=True), part(b"x", more=True), part(b"x"))
    await wire.line(CHUNKED).send(END)
    assert wire.messages == []
    assert [message.get("more_body", False) for message in wire.sent] == [True, False]


async def test_a_client_that_waits_to_be_asked_is_not_waited_for():
    wire = Wire()
    await wire.line((b"content-length", b"5"), (b"expect", b"100-continue")).send(END)
    assert wire.sent == [END]


async def test_a_body_that_does_not_come_can_be_read_all_the_same():
    line = Wire(part(b"")).line()
    read = []

    async def work():
        read.append(await line.receive())

    await asyncio.wait_for(line.serve(work()), 30)
    assert read == [part(b"")]


@pytest.mark.parametrize("started", [False, True])
async def test_the_end_of_the_process_refuses_what_has_not_begun(started):
    shutdown = Shutdown()
    wire = Wire(part(b"x"))
    line = Line({"headers": (CHUNKED,), "state": {"shutdown": shutdown}}, wire.receive, wire.send)
    go_on = asyncio.Event()

    async def work():
        await line.receive()
        if started:
            await line.send({"type": "http.response.start", "status": 200, "headers": []})
        shutdown.end()
        await go_on.wait()

    serving = asyncio.create_task(line.serve(work()))
    await asyncio.sleep(0)
    if started:
        go_on.set()
        await asyncio.wait_for(serving, 30)
    else:
        with pytest.raises(ApiError) as caught:
            await asyncio.wait_for(serving, 30)
        assert (caught.value.status_code, caught.value.code) == (503, "server_shutting_down")


async def test_after_the_end_nothing_begins():
    shutdown = Shutdown()
    shutdown.end()
    wire = Wire(part(b"x"))
    line = Line({"headers": (CHUNKED,), "state": {"shutdown": shutdown}}, wire.receive, wire.send)
    with pytest.raises(ApiError):
        await asyncio.wait_for(line.serve(asyncio.sleep(60)), 30)


class OurServer(Wire):
    """Our own server, which says more of a request than ASGI does."""

    def __init__(self, *messages):
        super().__init__(*messages)
        self.incoming = Incoming()

    def line(self, *headers):
        return Line({"headers": headers, "state": {"incoming": self.incoming}}, self.receive, self.send)


@pytest.mark.parametrize("headers", [(CHUNKED,), ()])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_our_server_tells_of_a_hang_up(headers, when):
    wire = OurServer(part(b"x" if headers else b""))
    line = wire.line(*headers)
    if when == "before":
        wire.incoming.leave()

    async def work():
        await line.receive()
        wire.incoming.leave()
        wire.incoming.leave()
        await asyncio.sleep(60)

    with pytest.raises(HungUp):
        await line.serve(work())
    assert asyncio.current_task().cancelling() == 0


async def test_after_the_answer_a_hang_up_is_heard_and_cancels_nothing():
    wire = OurServer(part(b"x"))
    line = wire.line(CHUNKED)
    heard = []

    async def work():
        await line.receive()
        await line.send(END)
        wire.incoming.leave()
        heard.append(await line.receive())

    await line.serve(work())
    assert heard == [{"type": "http.disconnect"}]
    wire.incoming.leave()


async def test_a_body_that_is_known_to_be_here_needs_no_timer():
    wire = OurServer(part(b"x"))
    line = wire.line(CHUNKED)
    assert not line.is_complete
    wire.incoming.complete = True
    assert line.is_complete
    line.limit(10, silence_seconds=1e-9)
    assert await line.receive() == part(b"x")


async def test_a_hang_up_at_the_moment_of_the_end_harms_nobody_after_it():
    wire = OurServer(part(b"x"))
    line = wire.line(CHUNKED)

    async def work():
        await line.receive()
        wire.incoming.leave()  # heard of in the next moment, and this is the last one

    await line.serve(work())
    await asyncio.sleep(0.01)
    assert asyncio.current_task().cancelling() == 0


async def test_who_cancels_the_task_is_heard_though_the_client_left_too():
    wire = OurServer(part(b"x"))
    line = wire.line(CHUNKED)
    waiting = asyncio.Event()

    async def work():
        await line.receive()
        waiting.set()
        await asyncio.sleep(60)

    serving = asyncio.create_task(line.serve(work()))
    await waiting.wait()
    serving.cancel()
    wire.incoming.leave()
    with pytest.raises(asyncio.CancelledError):
        await serving
