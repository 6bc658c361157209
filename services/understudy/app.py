"""The HTTP API: OpenAI's chat completions as vLLM serves them, models, health and metrics."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import ValidationError

from services.understudy import completion
from services.understudy.config import Settings
from services.understudy.conversation import read_conversation
from services.understudy.engine import Engine, QueueFull
from services.understudy.generation import Generation, Piece, generate
from services.understudy.json_filler import CannotFill
from services.understudy.latency import PROFILES
from services.understudy.metrics import EngineMetrics
from services.understudy.protocol import ChatRequest
from services.understudy.reply import decide
from services.understudy.tokens import count_tokens

log = logging.getLogger(__name__)
_MAX_BODY_BYTES = 16 * 1024 * 1024
# Nobody reads it; the status is the one that proxies log for a client who left.
_GONE = Response(status_code=499)
_Result = TypeVar("_Result")
_HEADERS = {"x-sabueso-stand-in": "understudy"}


class Refused(Exception):
    """A request that gets an OpenAI error object. `kind` is vLLM's error type, `field` the parameter at fault."""

    def __init__(self, status: int, kind: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.field = status, kind, message, field

    def response(self) -> JSONResponse:
        """The answer to the client."""
        body = {"message": self.message, "type": self.kind, "param": self.field, "code": self.status}
        headers = _HEADERS | ({"retry-after": "1"} if self.status == 503 else {})
        return JSONResponse({"error": body}, self.status, headers)


@dataclass(frozen=True)
class _Job:
    request: ChatRequest
    head: completion.Head
    prompt_tokens: int
    stream: AsyncGenerator[tuple[Generation, list[Piece]]]
    paced: bool


def build_app(settings: Settings) -> FastAPI:
    """The application of one served model."""
    metrics = EngineMetrics(settings.model_name)
    engine = Engine(
        PROFILES[settings.latency_profile],
        metrics,
        max_running=settings.max_running,
        max_waiting=settings.max_waiting,
    )
    started = int(time.time())
    app = FastAPI(title="sabueso understudy (stand-in for vLLM)", docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(Refused)
    async def refuse(request: Request, error: Refused) -> Response:  # pyright: ignore[reportUnusedFunction]
        return error.response()

    @app.exception_handler(Exception)
    async def hide(request: Request, error: Exception) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Refused(500, "InternalServerError", "internal error").response()

    @app.get("/health")
    async def health() -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(headers=_HEADERS)

    @app.get("/metrics")
    async def expose() -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models")
    async def models() -> Response:  # pyright: ignore[reportUnusedFunction]
        card = {
            "id": settings.model_name,
            "object": "model",
            "created": started,
            "owned_by": completion.FINGERPRINT,
            "root": completion.FINGERPRINT,
            "parent": None,
            "max_model_len": settings.max_model_len,
        }
        return JSONResponse({"object": "list", "data": [card]}, headers=_HEADERS)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        arrived = asyncio.get_running_loop().time()
        job = _accept(await _read(request), settings, engine, arrived)
        if job.request.stream:
            return await _streamed(job, request)
        return await _whole(job, request)

    return app


async def _read(request: Request) -> ChatRequest:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            raise Refused(413, "BadRequestError", f"The body is larger than {_MAX_BODY_BYTES} bytes.")
    try:
        return ChatRequest.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        message = f"{field}: {first['msg']}" if field else f"The body is not valid: {first['msg']}"
        if field == "n":
            message = "n: only one choice per request is supported; leave `n` out or set it to 1"
        raise Refused(400, "BadRequestError", message, field) from None


def _accept(request: ChatRequest, settings: Settings, engine: Engine, arrived: float) -> _Job:
    """Checks what the form cannot, and sets the work up."""
    if request.model and request.model != settings.model_name:
        raise Refused(404, "NotFoundError", f"The model `{request.model[:200]}` does not exist.", "model")
    choice, tools = request.choice(), request.offered()
    if choice.mode == "named" and choice.named not in {tool.name for tool in tools}:
        raise Refused(400, "BadRequestError", "tool_choice: names a function that is not in `tools`", "tool_choice")
    if choice.mode == "required" and not tools:
        raise Refused(400, "BadRequestError", "tool_choice: `required` needs `tools`", "tool_choice")
    conversation = read_conversation(request.plain_messages())
    prompt_tokens = _prompt_tokens(request)
    room = settings.max_model_len - prompt_tokens
    if room < 1 or (request.token_limit or 0) > room:
        message = (
            f"This model's maximum context length is {settings.max_model_len} tokens. However, you requested "
            f"{prompt_tokens + (request.token_limit or 1)} tokens ({prompt_tokens} in the messages). Shorten the "
            "messages or lower `max_completion_tokens`."
        )
        raise Refused(400, "BadRequestError", message, "messages")

    def work() -> Generation:
        reply = decide(conversation, tools, choice, date.today())
        limit = request.token_limit or room
        return generate(reply, max_tokens=limit, stops=request.stops, named=choice.mode == "named")

    head = completion.Head(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), settings.model_name)
    stream = engine.run(prompt_tokens, conversation.turn, work, arrived)
    return _Job(request, head, prompt_tokens, stream, settings.latency_profile != "instant")


def _prompt_tokens(request: ChatRequest) -> int:
    texts = [message.text for message in request.messages]
    calls = [c.function.name + c.function.arguments for m in request.messages for c in m.tool_calls or ()]
    tools = [json.dumps(tool.model_dump(), ensure_ascii=False) for tool in request.tools or ()]
    # Four tokens frame each message in the chat template of Llama 3.
    return sum(map(count_tokens, [*texts, *calls, *tools])) + 4 * len(texts)


def _refused(error: Exception) -> Refused:
    if isinstance(error, QueueFull):
        return Refused(503, "ServiceUnavailableError", "The queue is full; try again shortly.")
    if isinstance(error, CannotFill):
        return Refused(400, "BadRequestError", str(error), "response_format")
    raise error


async def _while_there(request: Request, work: Coroutine[Any, Any, _Result]) -> _Result | None:
    """What `work` gives; None, and the work stopped, when the client goes first."""
    running, gone = asyncio.create_task(work), asyncio.create_task(_until_gone(request))
    try:
        await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else None
    except (QueueFull, CannotFill) as error:
        raise _refused(error) from None
    finally:
        running.cancel()
        gone.cancel()
        await asyncio.gather(running, gone, return_exceptions=True)


async def _whole(job: _Job, request: Request) -> Response:
    """The answer in one piece."""
    generation = await _while_there(request, _last(job))
    if generation is None:
        return _GONE
    return JSONResponse(completion.completion(job.head, generation, job.prompt_tokens), headers=_HEADERS)


async def _last(job: _Job) -> Generation:
    async with aclosing(job.stream) as stream:
        return [generation async for generation, _ in stream][-1]


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _streamed(job: _Job, request: Request) -> Response:
    """Server-sent events. What is refused is refused before their head, with its own status.

    The head leaves once the work is under way, as vLLM's does: nobody has to read it when the first token comes.
    """
    begun = await _while_there(request, _begun(job))
    if begun is None:
        return _GONE
    include_usage = bool(job.request.stream_options and job.request.stream_options.include_usage)

    async def events() -> AsyncIterator[bytes]:
        left, written = len(begun.pieces), completion.opening(job.head)
        async with aclosing(job.stream) as stream:
            async for _, pieces in stream:
                left -= len(pieces)
                written += completion.deltas(job.head, pieces, paced=job.paced)
                if left:
                    yield written
                    written = b""
        # What is due at the end leaves with the end.
        closing = completion.closing(job.head, begun, job.prompt_tokens, include_usage=include_usage)
        yield written + b"".join(closing)

    return StreamingResponse(events(), media_type="text/event-stream", headers=_HEADERS | {"cache-control": "no-cache"})


async def _begun(job: _Job) -> Generation:
    generation, _ = await anext(job.stream)
    return generation
