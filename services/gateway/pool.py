"""The pool of served models: an OpenAI-compatible server, vLLM or another, that requests pass through to untouched."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase

import httpx2
from opentelemetry import propagate
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.errors import ApiError, failure_of
from services.gateway.keys import Caller
from services.gateway.streaming import HEADERS, Pieces, sse
from services.runtime.errors import DeadlineExceeded, DependencyFailed
from services.runtime.tenants import Tenant

log = logging.getLogger(__name__)

# Shorter than the 5 s after which uvicorn, and so vLLM, closes an idle connection: else both may use it at once.
_KEEP_ALIVE_SECONDS = 4.0
_IDLE_RACE_SECONDS = 0.5
# How old a list of models may be: to answer from, and to say from it that a model does not exist.
_MODELS_SECONDS, _NEW_MODEL_SECONDS = 5.0, 1.0
_MODELS_TIMEOUT_SECONDS = 2.0

# RFC 9110 §7.6.1, and what must not go further: credentials of the client's, and identities that only we may state.
_NOT_FORWARDED = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"host", b"content-length", b"expect", b"authorization", b"api-key", b"x-api-key",
    b"cookie", b"forwarded", b"x-real-ip", b"x-request-id", b"traceparent", b"tracestate",
}  # fmt: skip
_NOT_FORWARDED_PREFIXES = (b"x-forwarded-", b"x-sabueso-", b"x-tenant", b"x-ratelimit-", b"x-priority")
# Of the pool's answer: what belongs to its connection, and what we say ourselves.
_NOT_RETURNED = {
    "connection", "keep-alive", "proxy-authenticate", "trailer", "transfer-encoding", "upgrade", "server", "date",
    "set-cookie", "x-request-id",
}  # fmt: skip


class ModelPool:
    """Passes requests on and knows which models there are."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        """`client`: of `model_client`, or any whose base URL is the pool's `/v1`."""
        self._client = client
        self._url = client.base_url.join("chat/completions")
        self._timeout = {"timeout": client.timeout.as_dict()}
        credential = client.headers.get("authorization")
        self._credential = [] if credential is None else [(b"authorization", credential.encode())]
        self._names: list[str] | None = None
        self._asked_at = -_MODELS_SECONDS
        self._asking = asyncio.Lock()
        self._refreshing: asyncio.Task[list[str] | None] | None = None

    async def models_of(self, tenant: Tenant) -> list[str]:
        """Names that the tenant may call, as of some seconds ago. Empty while the pool has never answered."""
        return _allowed(tenant, await self._models(_MODELS_SECONDS) or [])

    async def relay(self, request: Request, caller: Caller, model: str, body: bytes) -> Response:
        """The pool's answer to the request, byte for byte.

        Raises ApiError (the caller may not use the model, or there is none), DependencyFailed and DeadlineExceeded.
        """
        await self._check(caller, model)
        upstream = await self._send(request, body)
        if upstream.status_code == 401:
            await upstream.aclose()
            log.error("the model pool refuses our key", extra={"setting": "SABUESO_MODEL_API_KEY"})
            raise DependencyFailed("The model pool does not let the gateway in.", dependency="model pool")
        headers = {
            k: v for k, v in upstream.headers.items() if k not in _NOT_RETURNED and not k.startswith("x-ratelimit-")
        }
        if _is_stream(upstream):
            headers |= HEADERS
        return Pieces(_bytes_of(upstream), upstream.status_code, headers)

    async def _check(self, caller: Caller, model: str) -> None:
        # The agent's model is the operator's choice; the tenant's list is for its own keys.
        if caller.internal:
            return
        if self._names is not None and model in self._names and _allowed(caller.tenant, [model]):
            self._refresh()  # not waited for: a pool too busy to list its models may still answer
            return
        names = await self._models(_MODELS_SECONDS)
        if _allowed(caller.tenant, [model]):
            if names is not None and model not in names:
                names = await self._models(_NEW_MODEL_SECONDS)
            if names is None or model in names:
                return
        known = ", ".join(["sabueso", *_allowed(caller.tenant, names or [])])
        message = f"The model `{model[:100]}` does not exist or is not yours to call. You may call: {known}."
        raise ApiError(404, message, code="model_not_found", param="model")

    def _refresh(self) -> None:
        if time.monotonic() - self._asked_at >= _MODELS_SECONDS and not self._asking.locked():
            self._refreshing = asyncio.create_task(self._models(_MODELS_SECONDS))

    async def _models(self, seconds: float) -> list[str] | None:
        """Names that are at most `seconds` old, or older ones when the pool is silent. None when it always was."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= seconds:
                self._asked_at = time.monotonic()
                try:
                    answer = await self._client.get("models", timeout=_MODELS_TIMEOUT_SECONDS)
                    answer.raise_for_status()
                    self._names = [str(model["id"]) for model in answer.json()["data"]]
                except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
                    log.warning("the model pool does not list its models", extra={"reason": type(error).__name__})
            return self._names

    async def _send(self, request: Request, body: bytes) -> httpx2.Response:
        # The gateway's own place in the trace, or the client's where this process traces nothing.
        trace: dict[str, str] = {}
        propagate.inject(trace)
        headers = [
            *_forwarded(request.headers),
            *((name.encode(), value.encode()) for name, value in trace.items()),
            *self._credential,
            (b"x-request-id", request.state.request_id.encode()),
        ]
        # Not the client's build_request: its parsing and merging took a tenth of the gateway's own time.
        outgoing = httpx2.Request("POST", self._url, headers=headers, content=body, extensions=self._timeout)
        sent_at = time.monotonic()
        try:
            try:
                return await self._client.send(outgoing, stream=True)
            except (httpx2.RemoteProtocolError, httpx2.ReadError):
                # So soon, it is an idle connection that the pool closed at the moment of its use.
                if time.monotonic() - sent_at > _IDLE_RACE_SECONDS:
                    raise
                return await self._client.send(outgoing, stream=True)
        except (httpx2.ReadTimeout, httpx2.WriteTimeout):
            raise DeadlineExceeded("The model did not begin to answer in time.", stage="model pool") from None
        except httpx2.TransportError:
            raise DependencyFailed("The model pool does not answer.", dependency="model pool") from None


@asynccontextmanager
async def model_client(
    url: str, api_key: str = "", *, connect_seconds: float = 2, read_seconds: float = 120
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of the pool at `url`. `read_seconds` bounds each silence, not the whole answer."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    async with httpx2.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=httpx2.Timeout(read_seconds, connect=connect_seconds, pool=connect_seconds),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=200, keepalive_expiry=_KEEP_ALIVE_SECONDS),
        trust_env=False,  # a proxy of the environment is not meant for the inside
    ) as client:
        yield client


def _allowed(tenant: Tenant, names: list[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in tenant.models)]


def _forwarded(headers: Headers) -> list[tuple[bytes, bytes]]:
    named = {name.strip().lower().encode() for name in headers.get("connection", "").split(",")}
    kept = [
        (name, value)
        for name, value in headers.raw
        if name not in _NOT_FORWARDED and name not in named and not name.startswith(_NOT_FORWARDED_PREFIXES)
    ]
    # A pool might compress by its own choice, and a client that did not ask could not read it.
    return kept if "accept-encoding" in headers else [*kept, (b"accept-encoding", b"identity")]


def _is_stream(upstream: httpx2.Response) -> bool:
    return upstream.headers.get("content-type", "").startswith("text/event-stream")


async def _bytes_of(upstream: httpx2.Response) -> AsyncGenerator[bytes]:
    try:
        async for piece in upstream.aiter_raw():
            yield piece
    except httpx2.TransportError:
        lost = DependencyFailed("The model pool broke off in the middle of its answer.", dependency="model pool")
        if not _is_stream(upstream):
            raise lost from None
        # The blank line ends whatever event was cut in two.
        yield b"\n\n" + sse(failure_of(lost).body())
    finally:
        await upstream.aclose()
