"""A model server that costs next to nothing, for measuring what stands before it: `-m loadtests.fast_upstream PORT`.

It answers every POST with the same chat completion of about 1 kB, or, where the body asks for a stream, with 40 chunks
10 ms apart, each with the time of its sending.
"""

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

_TEXT = "Los contratos con proveedores se revisan cada año. " * 14
_USAGE = {"prompt_tokens": 250, "completion_tokens": 230, "total_tokens": 480}
_HEAD = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "mock"}
_CHOICE = {"index": 0, "message": {"role": "assistant", "content": _TEXT}, "finish_reason": "stop"}
_COMPLETION = json.dumps({**_HEAD, "choices": [_CHOICE], "usage": _USAGE}, ensure_ascii=False).encode()
_MODELS = json.dumps({"object": "list", "data": [{"id": "mock", "object": "model"}]}).encode()
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKS, _PAUSE_SECONDS = 40, 0.01


def _whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


_ANSWER, _LIST = _whole(_COMPLETION), _whole(_MODELS)


class Upstream(asyncio.Protocol):
    """One connection; requests come with a length or in chunks."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._got = b""
        self._streaming: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    def data_received(self, data: bytes) -> None:
        self._got += data
        while (end := _end_of_request(self._got)) >= 0:
            request, self._got = self._got[:end], self._got[end:]
            if not request.startswith(b"POST"):
                self._transport.write(_LIST)
            elif b'"stream":true' in request.replace(b" ", b""):
                self._streaming = asyncio.create_task(self._stream())
            else:
                self._transport.write(_ANSWER)

    async def _stream(self) -> None:
        self._transport.write(_STREAM_HEAD)
        for number in range(CHUNKS):
            content = f"{time.time():.6f} "
            choice = {"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": None}
            self._event({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]})
            if number < CHUNKS - 1:
                await asyncio.sleep(_PAUSE_SECONDS)
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        self._event({**_HEAD, "object": "chat.completion.chunk", "choices": [last]})
        self._event({**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE})
        self._chunk(b"data: [DONE]\n\n")
        self._transport.write(b"0\r\n\r\n")

    def _event(self, event: dict[str, object]) -> None:
        self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


def _end_of_request(got: bytes) -> int:
    """Where the first request ends; -1 while it has not."""
    end = got.find(b"\r\n\r\n") + 4
    if end < 4:
        return -1
    head = got[:end].lower()
    if b"transfer-encoding: chunked" in head:
        last = got.find(b"0\r\n\r\n", end - 2)
        return last + 5 if last >= 0 else -1
    at = head.find(b"content-length:")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    return end + length if len(got) >= end + length else -1


async def serve(port: int) -> None:
    """Serves for ever."""
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
