"""Builds the OpenAPI document: FastAPI's own, completed with answers, errors, headers and keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

Json = dict[str, Any]
# By media type: a model, one of several, or a schema as it is.
Media = Mapping[str, type[BaseModel] | tuple[type[BaseModel], ...] | Json]

_REF = "#/components/schemas/{model}"
JSON = "application/json"


@dataclass(frozen=True)
class Operation:
    """What FastAPI cannot see of an endpoint: what it answers, and its body where it reads that by itself."""

    summary: str
    answers: Media
    status: int = 200
    body: Media | None = None
    # Answers besides the error of the house, by status.
    others: Mapping[int, type[BaseModel]] | None = None
    needs_key: bool = True


# What may happen to every request below /v1.
ERRORS: Mapping[int, str] = {
    400: "The request is wrong; `param` names the field.",
    401: "There is no valid API key.",
    403: "The key may not do this.",
    404: "There is no such thing, or it is not yours.",
    405: "The address does not take this method.",
    408: "The body did not come in time.",
    409: "It is in conflict with what there is.",
    413: "The body is larger than the tenant's limit.",
    415: "The body is of a kind that the address does not read.",
    429: "A limit of the tenant, the key or the model is used up; `code` says which one.",
    500: "Our fault; the request id helps to find it.",
    501: "Not offered here.",
    502: "The model's server did not answer sensibly.",
    503: "A service or the model's server is lost or overloaded; try again.",
    504: "It took too long.",
}
_REQUEST_ID = {
    "description": "Names the request in logs and traces. A client may choose it: 8 to 128 of A-Z, a-z, 0-9, `._-`.",
    "schema": {"type": "string"},
}
_RETRY_AFTER = {
    "description": "Seconds after which the same request passes.",
    "schema": {"type": "integer", "minimum": 1},
}
_LIMIT_HEADERS: Mapping[str, tuple[str, str]] = {
    "x-ratelimit-limit-requests": ("Requests a minute.", "integer"),
    "x-ratelimit-remaining-requests": ("Requests that are left now.", "integer"),
    "x-ratelimit-reset-requests": ("Time until all are left, such as `1s` or `6m0s`.", "string"),
    "x-ratelimit-limit-tokens": ("Tokens a minute.", "integer"),
    "x-ratelimit-remaining-tokens": ("Tokens that are left now.", "integer"),
    "x-ratelimit-reset-tokens": ("Time until all are left.", "string"),
    "RateLimit-Policy": ("The limits, as the IETF's draft writes them.", "string"),
    "RateLimit": ("What is left of them, the tightest first.", "string"),
}


def describe(app: FastAPI, operations: Mapping[tuple[str, str], Operation], error: type[BaseModel]) -> None:
    """Makes `/openapi.json` complete. `operations`: by method and path; others keep what FastAPI says of them."""

    def build() -> Json:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=app.description,
                routes=app.routes,
            )
            app.openapi_schema = complete(document, operations, error)
        return app.openapi_schema

    app.openapi = build  # FastAPI's documented way to extend it


def complete(document: Json, operations: Mapping[tuple[str, str], Operation], error: type[BaseModel]) -> Json:
    """The document with everything in it. Changes and returns `document`."""
    refs, schemas = _schemas([*operations.values(), Operation("", {JSON: error})])
    components: Json = document.setdefault("components", {})
    known: Json = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        known.pop(name, None)
    components["schemas"] = dict(sorted({**known, **schemas}.items()))
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key, or a token of the identity provider."}
    }
    components["headers"] = _headers()
    components["responses"] = {
        _error_name(status): _answer(text, {JSON: refs[error]}, _limit_refs() | _retry_ref(status))
        for status, text in ERRORS.items()
    }
    for path, methods in cast(dict[str, Json], document.get("paths", {})).items():
        for method, described in methods.items():
            operation = operations.get((method.upper(), path), Operation("", {}))
            if not path.startswith("/v1/"):
                operation = replace(operation, needs_key=False)
            _complete_one(described, operation, refs)
    return document


def _complete_one(described: Json, operation: Operation, refs: Mapping[type[BaseModel], Json]) -> None:
    if operation.summary:
        described["summary"] = operation.summary
    answers: Json = described.setdefault("responses", {})
    answers.pop("422", None)  # FastAPI's own; wrong fields are answered with 400 here
    if operation.answers or operation.status == 204:
        first = str(operation.status)
        text = answers.get(first, {}).get("description") or HTTPStatus(operation.status).phrase
        answers[first] = _answer(text, _media(operation.answers, refs), {})
    for status, model in (operation.others or {}).items():
        answers[str(status)] = _answer(HTTPStatus(status).phrase, {JSON: refs[model]}, {})
    for status, answer in answers.items():
        if int(status) < 400:
            headers: Json = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}}
            answer["headers"] = headers | (_limit_refs() if operation.needs_key else {})
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _content(_media(operation.body, refs))}
    if operation.needs_key:
        described["security"] = [{"key": []}]
        for status in ERRORS:
            answers.setdefault(str(status), {"$ref": f"#/components/responses/{_error_name(status)}"})


def _schemas(operations: Sequence[Operation]) -> tuple[Mapping[type[BaseModel], Json], Json]:
    """Where each model's schema is, and all schemas by name."""
    models: dict[type[BaseModel], JsonSchemaMode] = {}
    for operation in operations:
        models |= dict.fromkeys(_models(operation.body or {}), "validation")
        models |= dict.fromkeys([*_models(operation.answers), *(operation.others or {}).values()], "serialization")
    refs, document = models_json_schema(list(models.items()), ref_template=_REF)
    return {model: refs[model, mode] for model, mode in models.items()}, document.get("$defs", {})


def _models(media: Media) -> Iterator[type[BaseModel]]:
    for one in media.values():
        if isinstance(one, type):
            yield one
        elif isinstance(one, tuple):
            yield from one


def _media(media: Media, refs: Mapping[type[BaseModel], Json]) -> dict[str, Json]:
    schemas: dict[str, Json] = {}
    for kind, one in media.items():
        if isinstance(one, tuple):
            schemas[kind] = {"anyOf": [refs[model] for model in one]}
        else:
            schemas[kind] = refs[one] if isinstance(one, type) else one
    return schemas


def _content(media: Mapping[str, Json]) -> Json:
    return {kind: {"schema": schema} for kind, schema in media.items()}


def _answer(text: str, media: Mapping[str, Json], headers: Json) -> Json:
    answer: Json = {"description": text}
    if headers:
        answer["headers"] = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}, **headers}
    if media:
        answer["content"] = _content(media)
    return answer


def _headers() -> Json:
    limits = {
        name: {"description": f"{text} Missing where there is no such limit.", "schema": {"type": kind}}
        for name, (text, kind) in _LIMIT_HEADERS.items()
    }
    return {"x-request-id": _REQUEST_ID, "Retry-After": _RETRY_AFTER, **limits}


def _limit_refs() -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in _LIMIT_HEADERS}


def _retry_ref(status: int) -> Json:
    return {"Retry-After": {"$ref": "#/components/headers/Retry-After"}} if status in (429, 503) else {}


def _error_name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")
