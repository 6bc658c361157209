"""A model's answer in memory."""

import asyncio
import contextlib


class Played:
    """Gives the pieces one after the other; an exception among them is raised, an event is waited for."""

    def __init__(self, *pieces, status=200, kind="text/event-stream", **headers):
        self.status = status
        self.headers = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.outcomes = []
        self.given = 0
        self._pieces = pieces

    async def pieces(self):
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, asyncio.Event):
                await piece.wait()
                continue
            self.given += 1
            yield piece

    async def close(self, outcome):
        self.outcomes.append(outcome)


class Client:
    """ASGI's `send`: what a client has received so far."""

    def __init__(self):
        self.status = None
        self.headers = {}
        self.body = b""
        self.ended = False
        self._more = asyncio.Condition()

    async def send(self, message):
        assert not self.ended
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)
        async with self._more:
            self._more.notify_all()

    async def until(self, told):
        async with asyncio.timeout(30), self._more:
            await self._more.wait_for(lambda: told(self))


async def never():
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def running(work):
    """A task for the time of the block; cancelled at its end."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
