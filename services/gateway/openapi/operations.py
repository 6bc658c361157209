"""What every endpoint takes and answers, for the description."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from services.gateway.chat import AgentRequest
from services.gateway.models import EmbeddingsRequest, RerankRequest
from services.gateway.openapi import agent_answers, answers
from services.gateway.openapi.description import JSON, Media, Operation
from services.gateway.responses.asked import ResponsesRequest
from services.gateway.uploads import DocumentRequest

EVENTS = "text/event-stream"
_EVENTS = {"type": "string", "description": "Server-Sent Events, as OpenAI's API has them; where `stream` is true."}

_EVENTS_AGAIN = {"description": "Server-Sent Events, as `POST /v1/responses` streamed them; where `stream` is true."}


class PooledRequest(BaseModel):
    """A request for another model: it goes to the model's pool as it is, and what comes back is the pool's answer."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(
        min_length=1, description="Any name of GET /v1/models.", json_schema_extra={"not": {"const": "sabueso"}}
    )


class PooledAnswer(BaseModel):
    """What the model's server answered, as it is."""

    model_config = ConfigDict(extra="allow")


_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file", "collection"],
    "properties": {
        "file": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}},
        "collection": {"type": "string", "minLength": 1},
        "document_id": {"type": "string"},
        "title": {"type": "string"},
        "language": {"type": "string"},
        "metadata": {"type": "string", "description": "A JSON object of texts."},
        "labels": {"type": "string", "description": "Who may read it: labels separated by commas."},
    },
    "additionalProperties": False,
}


def _with_pools(answer: type[BaseModel], *, streams: bool = False) -> Media:
    media: Media = {JSON: (answer, PooledAnswer)}
    return {**media, EVENTS: _EVENTS} if streams else media


OPERATIONS = {
    ("POST", "/v1/chat/completions"): Operation(
        "Ask the agent, or another model",
        _with_pools(agent_answers.ChatCompletion, streams=True),
        body={JSON: (AgentRequest, PooledRequest)},
    ),
    ("POST", "/v1/responses"): Operation(
        "Ask the agent, or another model, in the Responses API",
        _with_pools(agent_answers.AgentResponse, streams=True),
        body={JSON: (ResponsesRequest, PooledRequest)},
    ),
    ("GET", "/v1/responses/{response_id}"): Operation(
        "Show a stored answer, or stream it again", {JSON: agent_answers.AgentResponse, EVENTS: _EVENTS_AGAIN}
    ),
    ("GET", "/v1/responses/{response_id}/input_items"): Operation(
        "List what a stored answer was asked with", {JSON: agent_answers.InputItems}
    ),
    ("DELETE", "/v1/responses/{response_id}"): Operation(
        "Forget an answer with its question", {JSON: agent_answers.ConversationDeleted}
    ),
    ("DELETE", "/v1/conversations/{conversation_id}"): Operation(
        "Forget a conversation", {JSON: agent_answers.ConversationDeleted}
    ),
    ("DELETE", "/v1/conversations"): Operation(
        "Forget all conversations of the key", {JSON: agent_answers.ConversationDeleted}
    ),
    ("POST", "/v1/completions"): Operation(
        "Complete a text with a model of a pool", {JSON: PooledAnswer, EVENTS: _EVENTS}, body={JSON: PooledRequest}
    ),
    ("GET", "/v1/models"): Operation("List the models that the key may call", {JSON: answers.ModelList}),
    ("GET", "/v1/models/{name}"): Operation("Show a model", {JSON: answers.Model}),
    ("POST", "/v1/embeddings"): Operation(
        "Embed texts", _with_pools(answers.EmbeddingList), body={JSON: (EmbeddingsRequest, PooledRequest)}
    ),
    ("POST", "/v1/rerank"): Operation(
        "Order documents by how well they answer a query",
        _with_pools(answers.Ranking),
        body={JSON: (RerankRequest, PooledRequest)},
    ),
    ("POST", "/v1/search"): Operation("Search documents", {JSON: answers.Found}),
    ("POST", "/v1/documents"): Operation(
        "Take documents in",
        {JSON: (answers.Accepted, answers.AcceptedList)},
        status=202,
        body={JSON: DocumentRequest, "multipart/form-data": _FORM},
    ),
    ("GET", "/v1/documents"): Operation("List documents", {JSON: answers.DocumentList}),
    ("GET", "/v1/documents/{document_id}"): Operation("Show a document and how far it is", {JSON: answers.Document}),
    ("DELETE", "/v1/documents/{document_id}"): Operation("Delete a document", {JSON: answers.DocumentDeleted}),
    ("GET", "/v1/documents/{document_id}/chunks"): Operation(
        "Show what was understood of a document", {JSON: answers.ChunkList}
    ),
    ("GET", "/v1/collections"): Operation("List collections", {JSON: answers.CollectionList}),
    ("GET", "/v1/collections/{name}"): Operation("Show a collection", {JSON: answers.Collection}),
    ("PUT", "/v1/collections/{name}"): Operation("Create or change a collection", {JSON: answers.Collection}),
    ("DELETE", "/v1/collections/{name}"): Operation(
        "Delete a collection with its documents", {JSON: answers.CollectionDeleted}
    ),
    ("POST", "/v1/collections/{name}/migrate"): Operation(
        "Embed a collection anew", {JSON: answers.Collection}, status=202
    ),
    ("DELETE", "/v1/collections/{name}/migrate"): Operation("Stop a migration", {JSON: answers.Collection}),
    ("POST", "/v1/data-loads"): Operation("Say that a database has new data", {}, status=204),
    ("POST", "/v1/feedback"): Operation("Say how good an answer was", {JSON: answers.FeedbackKept}, status=201),
    ("GET", "/v1/feedback"): Operation(
        "Read what was said of answers",
        {
            JSON: answers.FeedbackList,
            "application/jsonl": {"type": "string", "description": "One entry a line, where `format` is jsonl."},
        },
    ),
    ("GET", "/v1/usage"): Operation("Show limits and what is used of them", {JSON: answers.LimitUse}),
    ("GET", "/metrics"): Operation("Metrics for Prometheus", {"text/plain": {"type": "string"}}),
    ("GET", "/healthz"): Operation("Whether the process runs", {JSON: answers.Health}),
    ("GET", "/readyz"): Operation("Whether the process can serve", {JSON: answers.Ready}, others={503: answers.Ready}),
}
