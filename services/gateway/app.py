"""The HTTP application: which address leads to which endpoint."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import BaseRoute

from services.gateway.admission import Admission
from services.gateway.chat import Chat
from services.gateway.clients import Clients
from services.gateway.collections import Collections
from services.gateway.data_loads import DataLoads
from services.gateway.documents import Documents
from services.gateway.edge import Edge
from services.gateway.errors import HANDLERS, ApiError, answer_failure
from services.gateway.keys import KeyRing
from services.gateway.limits import Limiter
from services.gateway.models import Models
from services.gateway.page import Page
from services.gateway.pool import ModelPool
from services.gateway.search import Search
from services.gateway.status import Readiness, Status
from services.gateway.uploads import DocumentRequest, Uploads

WEB = Path(__file__).parent / "web"


def create_app(
    *,
    keys: KeyRing,
    limiter: Limiter,
    clients: Clients,
    pool: ModelPool,
    chat: Chat,
    readiness: Readiness,
    web: Path = WEB,
) -> FastAPI:
    """The application. Everything that it calls comes in here."""
    app = FastAPI(
        title="sabueso",
        summary="True, cited answers from a company's own documents, its own databases and the public web.",
        description="OpenAI's API, with an agent under the model name `sabueso`. Send `Authorization: Bearer <key>`.",
        version="0.1.0",
        routes=_routes(clients, pool, chat, readiness),
        middleware=[Middleware(Edge), Middleware(Admission, keys=keys, limiter=limiter)],
        exception_handlers={kind: answer_failure for kind in HANDLERS},
        redirect_slashes=False,
        # Its own spans would double those of Edge, and hold what was searched for in an address.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        docs_url=None,  # both load their scripts from a CDN
        redoc_url=None,
    )
    app.router.default = Page(web)
    return app


def _routes(clients: Clients, pool: ModelPool, chat: Chat, readiness: Readiness) -> list[BaseRoute]:
    models, search, uploads = Models(clients, pool), Search(clients), Uploads(clients)
    documents, collections, loads = Documents(clients), Collections(clients), DataLoads(clients)
    status = Status(readiness)
    return [
        _route("POST", "/v1/chat/completions", chat.complete, openapi_extra=_CHAT_BODY),
        _route("GET", "/v1/models", models.list_all),
        _route("GET", "/v1/models/{name:path}", models.get_one),
        _route("POST", "/v1/embeddings", models.embed),
        _route("POST", "/v1/rerank", models.rerank),
        _route("POST", "/v1/search", search.search),
        _route("POST", "/v1/documents", uploads.create, status_code=202, openapi_extra=_DOCUMENT_BODY),
        _route("GET", "/v1/documents", documents.list_all),
        _route("GET", "/v1/documents/{document_id:path}/chunks", documents.chunks),
        _route("GET", "/v1/documents/{document_id:path}", documents.get_one),
        _route("DELETE", "/v1/documents/{document_id:path}", documents.delete),
        _route("GET", "/v1/collections", collections.list_all),
        _route("GET", "/v1/collections/{name}", collections.get_one),
        _route("PUT", "/v1/collections/{name}", collections.put),
        _route("DELETE", "/v1/collections/{name}", collections.delete),
        _route("POST", "/v1/collections/{name}/migrate", collections.migrate, status_code=202),
        _route("DELETE", "/v1/collections/{name}/migrate", collections.cancel_migration),
        _route("POST", "/v1/data-loads", loads.create, status_code=204),
        _route("GET", "/v1/usage", status.usage),
        _route("POST", "/v1/responses", not_offered, include_in_schema=False),
        _route("POST", "/v1/feedback", not_offered, include_in_schema=False),
        *(_route(method, "/mcp", not_offered, include_in_schema=False) for method in ("GET", "POST", "DELETE")),
        _route("GET", "/healthz", status.healthz),
        _route("GET", "/readyz", status.readyz),
        _route("GET", "/metrics", status.metrics, include_in_schema=False),
    ]


async def not_offered(request: Request) -> None:
    """Answers for an address that is known and has nothing behind it yet."""
    raise ApiError(501, f"{request.url.path} is not offered yet.", code="not_offered")


def _route(method: str, path: str, endpoint: Any, **options: Any) -> APIRoute:
    return APIRoute(path, endpoint, methods=[method], response_model=None, **options)


def _body(media_types: dict[str, Any]) -> dict[str, Any]:
    content = {media_type: {"schema": schema} for media_type, schema in media_types.items()}
    return {"requestBody": {"required": True, "content": content}}


# These two read their own bodies: the first passes its bytes on, the second takes two kinds.
_CHAT_BODY = _body(
    {
        "application/json": {
            "type": "object",
            "required": ["model", "messages"],
            "properties": {
                "model": {
                    "type": "string",
                    "description": "`sabueso` is the agent; others go to their pool untouched.",
                },
                "messages": {"type": "array", "items": {"type": "object"}},
                "stream": {"type": "boolean", "default": False},
                "sabueso": {"type": "object", "description": "What the agent understands beyond OpenAI's API."},
            },
            "additionalProperties": True,
        }
    }
)
_DOCUMENT_BODY = _body(
    {
        "application/json": DocumentRequest.model_json_schema(),
        "multipart/form-data": {
            "type": "object",
            "required": ["file", "collection"],
            "properties": {
                "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
                "collection": {"type": "string"},
                "document_id": {"type": "string"},
                "title": {"type": "string"},
                "language": {"type": "string"},
                "metadata": {"type": "string", "description": "A JSON object of texts."},
                "labels": {"type": "string", "description": "Who may read it: labels separated by commas."},
            },
        },
    }
)
