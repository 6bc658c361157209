"""The HTTP application: which address leads to which endpoint."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.routing import Route

from services.gateway.access import admin as administration
from services.gateway.access.admin import AdminApi
from services.gateway.access.key_ring import KeyRing
from services.gateway.admission import MODEL_ROUTES, Admission, Terms
from services.gateway.agent import Agent
from services.gateway.chat import Chat
from services.gateway.clients import Clients
from services.gateway.collections import Collections
from services.gateway.completions import Completions
from services.gateway.conversations import Conversations
from services.gateway.data_loads import DataLoads
from services.gateway.direct import DirectRoutes
from services.gateway.documents import Documents
from services.gateway.edge import Edge
from services.gateway.errors import HANDLERS, answer_failure
from services.gateway.feedback.endpoint import FeedbackEndpoint
from services.gateway.feedback.ledger import Ledger
from services.gateway.guards.chain import Guards
from services.gateway.guards.door import GuardDoor
from services.gateway.limits.decision import Limiter
from services.gateway.mcp.endpoint import METHODS, PATH, McpEndpoint
from services.gateway.models import Models
from services.gateway.openapi.answers import Error
from services.gateway.openapi.description import describe
from services.gateway.openapi.operations import OPERATIONS
from services.gateway.page import Page
from services.gateway.pools.routing import ModelPools
from services.gateway.responses.endpoint import Responses
from services.gateway.responses.kept_responses import KeptResponses
from services.gateway.responses.resuming import Resuming
from services.gateway.search import Search
from services.gateway.status import Readiness, Status
from services.gateway.streams.drain import Draining, Shutdown
from services.gateway.telemetry.choices import Telemetry
from services.gateway.telemetry.model_calls import ModelCalls
from services.gateway.uploads import Uploads
from services.runtime.release import VERSION

WEB = Path(__file__).parent / "web"


def create_app(
    *,
    keys: KeyRing,
    admin: AdminApi,
    limiter: Limiter,
    clients: Clients,
    pool: ModelPools,
    agent: Agent,
    ledger: Ledger,
    readiness: Readiness,
    mcp: McpEndpoint,
    web: Path = WEB,
    shutdown: Shutdown | None = None,
    terms: Terms | None = None,
    guards: Guards | None = None,
    telling: Telemetry | None = None,
) -> FastAPI:
    """The application. Everything that it calls comes in here."""
    telling = telling or Telemetry()
    models = Models(clients, pool)
    routes = _routes(clients, models, pool, agent, ledger, Status(readiness, limiter))
    app = FastAPI(
        title="sabueso",
        summary="True, cited answers from a company's own documents, its own databases and the public web.",
        description="OpenAI's API, with an agent under the model name `sabueso`. Send `Authorization: Bearer <key>`. "
        "The agent's tools are offered by the Model Context Protocol (streamable HTTP) at `/mcp`.",
        version=VERSION,
        routes=[*routes, *administration.routes(admin), Route(PATH, mcp, methods=METHODS)],
        middleware=[
            Middleware(Draining, shutdown=shutdown or Shutdown()),
            Middleware(Edge, access_log=telling.access_log),
            Middleware(Admission, keys=keys, limiter=limiter, terms=terms, resolve=models.resolve),
            Middleware(ModelCalls, known=pool.known, version=telling.conventions, content=telling.content),
            Middleware(Resuming),
            Middleware(GuardDoor, guards=guards or Guards()),
            Middleware(DirectRoutes, routes=routes, paths=MODEL_ROUTES),
        ],
        exception_handlers={kind: answer_failure for kind in HANDLERS},
        redirect_slashes=False,
        # Its own spans would double those of Edge, and hold what was searched for in an address.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        docs_url=None,  # both load their scripts from a CDN
        redoc_url=None,
    )
    app.router.default = Page(web)
    describe(app, OPERATIONS, Error)
    return app


def _routes(
    clients: Clients, models: Models, pool: ModelPools, agent: Agent, ledger: Ledger, status: Status
) -> list[APIRoute]:
    chat, responses, feedback = Chat(agent, pool), Responses(agent, pool), FeedbackEndpoint(ledger)
    search, uploads = Search(clients), Uploads(clients)
    documents, collections, loads = Documents(clients), Collections(clients), DataLoads(clients)
    conversations, kept = Conversations(clients), KeptResponses(clients)
    return [
        _route("POST", "/v1/chat/completions", chat.complete),
        _route("GET", "/v1/models", models.list_all),
        _route("GET", "/v1/models/{name:path}", models.get_one),
        _route("POST", "/v1/embeddings", models.embed),
        _route("POST", "/v1/rerank", models.rerank),
        _route("POST", "/v1/search", search.search),
        _route("POST", "/v1/documents", uploads.create, status_code=202),
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
        _route("POST", "/v1/responses", responses.create),
        _route("GET", "/v1/responses/{response_id}/input_items", kept.list_input),
        _route("GET", "/v1/responses/{response_id}", kept.get_one),
        _route("DELETE", "/v1/responses/{response_id}", kept.delete_one),
        _route("DELETE", "/v1/conversations", conversations.delete_all),
        _route("DELETE", "/v1/conversations/{conversation_id}", conversations.delete_one),
        _route("POST", "/v1/completions", Completions(pool).complete),
        _route("POST", "/v1/feedback", feedback.create, status_code=201),
        _route("GET", "/v1/feedback", feedback.list_all),
        _route("GET", "/healthz", status.healthz),
        _route("GET", "/readyz", status.readyz),
        _route("GET", "/metrics", status.metrics),
    ]


def _route(method: str, path: str, endpoint: Any, **options: Any) -> APIRoute:
    return APIRoute(path, endpoint, methods=[method], response_model=None, **options)
