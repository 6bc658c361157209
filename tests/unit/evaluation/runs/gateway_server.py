"""A gateway of one's own choosing: the endpoints that runs ask, over real HTTP, with answers that a test decides."""

import asyncio
import inspect
import json
import socket
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse

KEY = "sk-test"
TOOLS = [{"name": "vector_search", "description": "Searches documents.", "inputSchema": {"type": "object"}}]


def is_about_the_warranty(text):
    return "warrant" in text or "garant" in text


def refusal(status, code, message="no", **headers):
    return JSONResponse({"error": {"message": message, "code": code}}, status, headers=headers)


class GatewayServer:
    """`agent(question, options)` answers the agent's questions: a body, or a response. `first` come before others."""

    def __init__(self, agent=None, *, knows_evidence=True, first=()):
        self.agent = agent or (lambda question, options: agent_body("24 months [1]."))
        self.knows_evidence = knows_evidence
        self.first = list(first)
        self.bodies = []
        self.searches = []

    async def complete(self, request: Request):
        body = await request.json()
        self.bodies.append(body)
        if request.headers["authorization"] != f"Bearer {KEY}":
            return refusal(401, "invalid_api_key")
        if self.first:
            return self.first.pop(0)
        options = body.get("sabueso")
        if options is None:
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": "I do not know."},
                "finish_reason": "stop",
            }
            return {
                "id": "1",
                "model": body["model"],
                "choices": [choice],
                "usage": {"prompt_tokens": 5, "completion_tokens": 4},
            }
        if "include_evidence" in options and not self.knows_evidence:
            return refusal(400, "invalid_field", "sabueso.include_evidence: Extra inputs are not permitted")
        said = self.agent(body["messages"][-1]["content"], options)
        return await said if inspect.isawaitable(said) else said

    async def search(self, request: Request):
        body = await request.json()
        self.searches.append(body)
        name = "warranty" if is_about_the_warranty(body["query"]) else "canteen"
        results = [{"document_id": name, "text": f"about {body['query']}", "score": 0.5}]
        return {"results": results, "stages": {"total": 2.0}, "degraded": []}

    async def models(self):
        owners = {"sabueso": "sabueso", "big": "pool", "e5": "embedding"}
        data = [{"id": name, "object": "model", "created": 0, "owned_by": owner} for name, owner in owners.items()]
        return {"object": "list", "data": data}

    async def embeddings(self, request: Request):
        texts = (await request.json())["input"]
        data = [
            {"object": "embedding", "index": place, "embedding": [float(len(text)), 1.0, float(place % 3)]}
            for place, text in enumerate(texts)
        ]
        return {"object": "list", "data": data, "model": "e5", "usage": {"prompt_tokens": 1, "total_tokens": 1}}

    async def mcp(self):
        said = {"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS}}
        return PlainTextResponse(f"event: message\ndata: {json.dumps(said)}\n\n", media_type="text/event-stream")


def agent_body(text, *, finish="answered", evidence=(("warranty", "The warranty runs for 24 months."),)):
    """What the gateway answers to a question for the agent."""
    call = {"tool": "vector_search", "arguments": {"query": "warranty"}, "status": "ok", "summary": "1 passage"}
    steps = [{"iteration": 1, "thought": "", "calls": [call]}] if evidence else []
    citation = {"type": "file_citation", "file_citation": {"file_id": "warranty", "quote": "24 months", "index": 1}}
    shown = [
        {"mark": n, "document_id": source, "text": text, "score": 0.5} for n, (source, text) in enumerate(evidence, 1)
    ]
    message = {"role": "assistant", "content": text, "annotations": [citation] if finish == "answered" else []}
    summary = {
        "answer_id": "ans_1",
        "strategy": "react",
        "finish": finish,
        "steps": steps,
        "degraded": [],
        "timings_ms": {"total": 10.0},
        "tokens": {"prompt": 5, "completion": 4},
        "evidence": shown,
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "sabueso",
        "choices": [choice],
        "sabueso": summary,
    }


@asynccontextmanager
async def listening(server):
    """The address of `server` on loopback, without /v1."""
    app = FastAPI()
    app.add_api_route("/v1/chat/completions", server.complete, methods=["POST"])
    app.add_api_route("/v1/search", server.search, methods=["POST"])
    app.add_api_route("/v1/embeddings", server.embeddings, methods=["POST"])
    app.add_api_route("/v1/models", server.models, methods=["GET"])
    app.add_api_route("/mcp", server.mcp, methods=["POST"])
    sock = socket.create_server(("127.0.0.1", 0))
    web = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_config=None))
    running = asyncio.create_task(web.serve(sockets=[sock]))
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        web.should_exit = True
        web.force_exit = True
        await running
