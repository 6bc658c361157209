"""A chat server for load tests that misbehaves as the question says: `slow`, `wrong`, `hang`, `cut`, `full`, …"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress

TRUTH = "sesenta"


def event(**fields):
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def said(text):
    return event(choices=[{"delta": {"content": text}}])


END = event(
    choices=[{"delta": {}, "finish_reason": "stop"}],
    sabueso={"finish": "answered", "iterations": 2, "degraded": ["reranking"], "timings_ms": {"model": 3, "total": 5}},
)
DONE = b"data: [DONE]\n\n"


class CrookedServer:
    """Serves in a thread of its own.

    `asked`: how often each word was; `most_at_once`: answers under way together; `documents`: calls about them;
    `leases`: what its metrics show.
    """

    def __init__(self):
        self.asked = Counter()
        self.connections = 0
        self.documents = []
        self.leases = 0
        self.at_once = self.most_at_once = 0
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()

    def run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self):
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0.05)  # transports close a turn of the loop later

    def wait(self):
        assert self._ready.wait(30)

    def stop(self):
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _connection(self, reader, writer):
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length) or b"{}")
        method, path, _ = head.split(" ", 2)
        match path.split("/")[1:]:
            case ["metrics"]:
                return self._plain(writer, 200, text=f"# HELP x\nsabueso_gateway_limiter_active_leases {self.leases}\n")
            case ["v1", "models"]:
                models = [{"id": "m-1", "owned_by": "pool"}, {"id": "e-1", "owned_by": "embedding"}]
                return self._plain(writer, 200, {"data": models})
            case ["v1", "documents" | "collections", *_]:
                self.documents.append(f"{method} {path}")
                return self._plain(writer, 200, {"status": "ready"})
        if path == "/v1/embeddings":
            return self._embed(writer, body)
        word = body["messages"][0]["content"].split()[0]
        self.asked[word] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer(writer, word)
        finally:
            self.at_once -= 1

    async def _answer(self, writer, word):
        match word:
            case "full":
                return self._plain(
                    writer, 429, {"error": {"message": "enough", "code": "full_code"}}, "retry-after: 3\r\n"
                )
            case "shed":
                return self._plain(
                    writer, 503, {"error": {"message": "busy", "code": "shed_code"}}, "retry-after: 1\r\n"
                )
            case "mute":
                return self._plain(writer, 429, {"error": {"message": "enough"}})
            case "broken":
                return self._plain(writer, 500, {"error": {"message": "internal error"}})
            case "gone":
                return False
            case "hang":
                await asyncio.sleep(600)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nserver-timing: gateway;dur=2\r\n\r\n")
        if word == "slow":
            await asyncio.sleep(0.3)
        pieces = {
            "cut": [said("ses")],
            "wrong": [said("ninguno"), END, DONE],
            "early": [said(TRUTH)],
            "late": [
                event(error={"message": "tokens are used up", "type": "rate_limit_error", "code": "late_code"}),
                DONE,
            ],
            "failed": [event(error={"message": "no model", "type": "server_error"}), DONE],
        }.get(word, [said(TRUTH[:3]), said(TRUTH[3:]), END, DONE])
        for piece in pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0.005)
        if word == "cut":
            return False
        writer.write(b"0\r\n\r\n")
        return True

    def _embed(self, writer, body):
        ones = {text: [1.0, float(len(text)), 0.5] for text in body["input"]}
        if "same" in body["input"][0]:
            ones = {text: [1.0, 2.0, 3.0] for text in ones}
        vectors = [{"embedding": ones[text]} for text in body["input"]]
        if "few" in body["input"][0]:
            vectors.pop()
        return self._plain(writer, 200, {"data": vectors})

    def _plain(self, writer, status, fields=None, headers="", text=""):
        body = text.encode() or json.dumps(fields).encode()
        writer.write(f"HTTP/1.1 {status} X\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body)
        return True


@contextmanager
def crooked_server() -> Generator[CrookedServer]:
    server = CrookedServer()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    server.wait()
    try:
        yield server
    finally:
        server.stop()
        thread.join(30)
