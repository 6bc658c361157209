"""A server of the OpenAI API whose answers a test or a script decides."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse


class JudgeServer:
    """Answers what `answer(task, facts)` says, after `first`: texts, statuses to refuse with, or whole bodies."""

    def __init__(self, answer=None, first=()):
        self.answer = answer
        self.first = list(first)
        self.requests = []
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def complete(self, request: Request):
        body = await request.json()
        self.requests.append(body)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
            return self._response(body)
        finally:
            self.at_once -= 1

    def _response(self, body):
        said = self.first.pop(0) if self.first else None
        if isinstance(said, int):
            # Without it the client would wait for half a second and more.
            return JSONResponse({"error": {"message": "no"}}, said, headers={"retry-after-ms": "1"})
        if isinstance(said, (dict, list)):
            return JSONResponse(said)
        if said is None:
            task = body["response_format"]["json_schema"]["name"]
            said = self.answer(task, json.loads(body["messages"][1]["content"]))
        message = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
        )


@asynccontextmanager
async def listening(server):
    """The base URL of `server` on loopback."""
    app = FastAPI()
    app.add_api_route("/v1/chat/completions", server.complete, methods=["POST"])
    sock = socket.create_server(("127.0.0.1", 0))
    web = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_config=None))
    running = asyncio.create_task(web.serve(sockets=[sock]))
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
    finally:
        server.gate.set()
        web.should_exit = True
        web.force_exit = True
        await running
