"""GET /v1/models, POST /v1/embeddings and POST /v1/rerank."""

import asyncio
import base64
import struct
import time
from collections.abc import Awaitable, Sequence
from typing import Annotated, Any, Literal, cast

import orjson
from grpc import aio
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sabueso.embedding.v1 import embedding_pb2 as embedding
from sabueso.reranking.v1 import reranking_pb2 as reranking
from services.gateway.admission import asked_of, caller_of, meter_of
from services.gateway.answer import AGENT
from services.gateway.clients import CALL_SECONDS, Clients, answer_of
from services.gateway.errors import ApiError
from services.gateway.passing import pass_on
from services.gateway.pools.routing import ModelPools
from services.gateway.ranking import check_top_n, in_order

_DESCRIBE_SECONDS, _DESCRIBE_TIMEOUT_SECONDS = 30.0, 2.0
_TEXTS_A_CALL = 256  # as embedding's proto says
_INPUT_TYPES = {"query": embedding.INPUT_TYPE_QUERY, "document": embedding.INPUT_TYPE_DOCUMENT}


def _texts(value: Any) -> Any:
    """A string or a list of strings, as a list."""
    texts: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    if texts and isinstance(texts[0], int | list):
        raise ValueError("tokens are not accepted here; send text")
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError("send a string, or a list of strings, none of them empty")
    return texts


class EmbeddingsRequest(BaseModel):
    """OpenAI's request, with `input_type`: retrieval models encode queries and documents differently."""

    model_config = ConfigDict(extra="ignore")

    model: str
    input: Annotated[
        list[str], BeforeValidator(_texts, json_schema_input_type=str | list[str]), Field(min_length=1, max_length=2048)
    ]
    encoding_format: Literal["float", "base64"] = "float"
    input_type: Literal["query", "document"] = "document"
    dimensions: int | None = None
    user: str | None = None


def _text_of(value: Any) -> Any:
    return cast(dict[str, Any], value).get("text") if isinstance(value, dict) else value


class RerankRequest(BaseModel):
    """The form that Jina, Cohere and TEI users know."""

    model: str | None = None
    query: str = Field(min_length=1, max_length=4096)
    documents: list[Annotated[str, BeforeValidator(_text_of, json_schema_input_type=str | dict[str, str])]] = Field(
        min_length=1, max_length=200
    )
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False


class Models:
    """The endpoints."""

    def __init__(self, clients: Clients, pool: ModelPools) -> None:
        self._clients = clients
        self._pool = pool
        self._names: dict[str, tuple[float, str]] = {}
        self._since = int(time.time())

    def resolve(self, name: str) -> str:
        """The name by which a model is counted, whatever it was asked for by. Without a name it is our reranker."""
        for service in self._names:
            if self._means(service, name) or (service == "reranking" and not name):
                return self._names[service][1]
        return self._pool.resolve(name)

    async def list_all(self, request: Request) -> JSONResponse:
        """Exactly what this key may call."""
        return JSONResponse({"object": "list", "data": await self._callable(request)})

    async def get_one(self, request: Request, name: str) -> JSONResponse:
        """One of them."""
        for model in await self._callable(request):
            if model["id"] == name:
                return JSONResponse(model)
        raise _no_such_model(name)

    async def embed(self, request: Request) -> Response:
        """Vectors of texts; of the embedding service, or of a pool that serves the model."""
        caller = caller_of(request)
        caller.require("models")
        fields = asked_of(request)
        if not await self._is_own("embedding", fields["model"]):
            return await pass_on(self._pool, request, "/v1/embeddings")
        asked = EmbeddingsRequest.model_validate(fields)
        if asked.dimensions is not None:
            message = "dimensions: this model's vectors have one length; leave it out."
            raise ApiError(400, message, code="unsupported_parameter", param="dimensions")
        meter_of(request).dispatched = True
        vectors: list[embedding.Embedding] = []
        for start in range(0, len(asked.input), _TEXTS_A_CALL):
            batch = embedding.EmbedRequest(
                texts=asked.input[start : start + _TEXTS_A_CALL], input_type=_INPUT_TYPES[asked.input_type]
            )
            answer = await answer_of("embedding", self._clients.embedding.Embed(batch, timeout=CALL_SECONDS))
            vectors.extend(answer.embeddings)
        encode = _base64 if asked.encoding_format == "base64" else list[float]
        data = [
            {"object": "embedding", "index": index, "embedding": encode(vector.dense)}
            for index, vector in enumerate(vectors)
        ]
        tokens = sum(vector.token_count for vector in vectors)
        meter_of(request).usage(tokens, 0)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        found = {"object": "list", "data": data, "model": asked.model, "usage": usage}
        return Response(orjson.dumps(found), media_type="application/json")

    async def rerank(self, request: Request) -> Response:
        """Texts by how well they answer the query, best first; by our own reranker where no model is named."""
        caller = caller_of(request)
        caller.require("models")
        fields = asked_of(request)
        name = fields.get("model")
        if isinstance(name, str) and not await self._is_own("reranking", name):
            check_top_n(fields)
            return await in_order(await pass_on(self._pool, request, "/v1/rerank"), fields.get("top_n"))
        asked = RerankRequest.model_validate(fields)
        meter = meter_of(request)
        meter.dispatched = True
        call = self._clients.reranking.Rerank(
            reranking.RerankRequest(
                query=asked.query,
                candidates=[reranking.Candidate(text=text) for text in asked.documents],
                top_n=min(asked.top_n or 0, len(asked.documents)),
            ),
            timeout=CALL_SECONDS,
        )
        answer = await answer_of("reranking", call)
        self._names["reranking"] = time.monotonic(), answer.model
        best = sorted(answer.scores, key=lambda score: -score.score)[: asked.top_n]
        results = [_result(score, asked) for score in best]
        # The service does not count; the estimate that was reserved is what is charged.
        usage = {"prompt_tokens": meter.prompt_tokens, "total_tokens": meter.prompt_tokens}
        return JSONResponse({"object": "list", "model": answer.model, "results": results, "usage": usage})

    async def _callable(self, request: Request) -> list[dict[str, Any]]:
        caller = caller_of(request)
        names: list[tuple[str, str]] = []
        if "agent" in caller.identity.scopes:
            names.append((AGENT, "sabueso"))
        if "models" in caller.identity.scopes:
            pool, embedder, reranker = await asyncio.gather(
                self._pool.models_of(caller), self._name_of("embedding"), self._name_of("reranking")
            )
            names += [(name, "pool") for name in pool]
            names += [(name, owner) for owner, name in (("embedding", embedder), ("reranking", reranker)) if name]
        return [{"id": name, "object": "model", "created": self._since, "owned_by": owner} for name, owner in names]

    async def _name_of(self, service: str) -> str:
        """Name of the service's model as of some seconds ago; empty while it does not answer."""
        asked_at, name = self._names.get(service, (-_DESCRIBE_SECONDS, ""))
        if time.monotonic() - asked_at < _DESCRIBE_SECONDS:
            return name
        describe: Awaitable[embedding.DescribeResponse | reranking.DescribeResponse] = (
            self._clients.embedding.Describe(embedding.DescribeRequest(), timeout=_DESCRIBE_TIMEOUT_SECONDS)
            if service == "embedding"
            else self._clients.reranking.Describe(reranking.DescribeRequest(), timeout=_DESCRIBE_TIMEOUT_SECONDS)
        )
        try:
            name = (await describe).model
        except aio.AioRpcError:
            return ""
        self._names[service] = time.monotonic(), name
        return name

    def _means(self, service: str, name: str) -> bool:
        _, known = self._names.get(service, (0.0, ""))
        return bool(known) and name in (known, known.partition("@")[0])  # callers need not know the revision

    async def _is_own(self, service: str, name: str) -> bool:
        """Whether `name` means the service's own model. While it does not say its name: whether no pool has it."""
        if self._means(service, name):
            return True
        if self._pool.known(name):
            return False
        if await self._name_of(service):
            return self._means(service, name)
        return not await self._pool.serves(name)


def _result(score: reranking.Score, asked: RerankRequest) -> dict[str, Any]:
    result: dict[str, Any] = {"index": score.index, "relevance_score": score.score}
    if asked.return_documents:
        result["document"] = {"text": asked.documents[score.index]}
    return result


def _no_such_model(name: str) -> ApiError:
    message = f"The model `{name[:100]}` does not exist or is not yours to call. GET /v1/models lists yours."
    return ApiError(404, message, code="model_not_found", param="model")


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
