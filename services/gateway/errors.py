"""What an HTTP caller sees of a failure: one table from gRPC codes to statuses, and OpenAI's error object."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

from fastapi.exceptions import RequestValidationError
from grpc import StatusCode
from grpc.aio import AioRpcError
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from services.runtime import errors

# gRPC code → HTTP status and the `code` of a failure that brings no reason of its own. Total; a test checks it.
HTTP: Mapping[StatusCode, tuple[int, str]] = {
    StatusCode.OK: (500, "internal_error"),  # a failure that calls itself OK is a bug
    StatusCode.CANCELLED: (499, "cancelled"),
    StatusCode.UNKNOWN: (500, "internal_error"),
    StatusCode.INVALID_ARGUMENT: (400, "invalid_field"),
    StatusCode.DEADLINE_EXCEEDED: (504, "deadline_exceeded"),
    StatusCode.NOT_FOUND: (404, "not_found"),
    StatusCode.ALREADY_EXISTS: (409, "already_exists"),
    StatusCode.PERMISSION_DENIED: (403, "not_permitted"),
    StatusCode.RESOURCE_EXHAUSTED: (429, "limit_exceeded"),
    StatusCode.FAILED_PRECONDITION: (400, "failed_precondition"),
    StatusCode.ABORTED: (409, "aborted"),
    StatusCode.OUT_OF_RANGE: (400, "out_of_range"),
    StatusCode.UNIMPLEMENTED: (501, "not_offered"),
    StatusCode.INTERNAL: (500, "internal_error"),
    StatusCode.UNAVAILABLE: (503, "dependency_failed"),
    StatusCode.DATA_LOSS: (500, "internal_error"),
    StatusCode.UNAUTHENTICATED: (401, "unauthenticated"),
}

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {
    400: "bad_request",
    404: "unknown_url",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
}


class ApiError(HTTPException):
    """A failure that the gateway itself finds.

    An HTTPException, because FastAPI lets only those pass while it reads a body.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        kind: str = "",
    ) -> None:
        """`kind`: the error's `type`, where its status does not say it."""
        super().__init__(status, message, headers)
        self.code = code
        self.param = param
        self.kind = kind


@dataclass(frozen=True)
class Failure:
    """A failure as the caller sees it."""

    status: int
    message: str
    code: str
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: str = ""

    @property
    def type(self) -> str:
        """OpenAI's coarse kind of error."""
        return self.kind or _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The answer to send."""
        return JSONResponse(self.body(), self.status, headers=dict(self.headers))


INTERNAL = Failure(500, "Internal error. The request id helps us to find it.", "internal_error")


def failure_of(error: Exception) -> Failure:
    """What the caller learns of `error`; of a bug nothing but the fact."""
    # Starlette's own wrapping of a failure that comes after the answer's start.
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, ApiError | errors.ServiceError):
        error = error.__cause__
    match error:
        case ApiError():
            return Failure(error.status_code, error.detail, error.code, error.param, error.headers or {}, error.kind)
        case RequestValidationError():
            found = cast(ErrorDetails, error.errors()[0])
            return _invalid(found, found["loc"][1:])  # FastAPI says first where the field was: body, query or path
        case ValidationError():
            found = error.errors()[0]
            return _invalid(found, found["loc"])
        case HTTPException():
            code = _CODES.get(error.status_code, "http_error")
            return Failure(error.status_code, _http_message(error), code, headers=error.headers or {})
        case errors.ServiceError():
            return _from_service(error)
        case AioRpcError():
            status, code = HTTP[error.code()]
            return INTERNAL if status == 500 else Failure(status, f"{HTTPStatus(status).phrase}.", code)
        case _:
            return INTERNAL


async def answer_failure(_: Request, error: Exception) -> JSONResponse:
    """FastAPI's exception handler for every kind of failure."""
    return failure_of(error).response()


HANDLERS: list[type[Exception]] = [
    HTTPException,
    RequestValidationError,
    ValidationError,
    errors.ServiceError,
    AioRpcError,
]


def retry_after(seconds: float) -> dict[str, str]:
    """Header for the least whole number of seconds, 1 or more, that is not too early."""
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


def _from_service(error: errors.ServiceError) -> Failure:
    status, _ = HTTP[error.code]
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers = retry_after(error.retry_after.total_seconds())
    elif status == 429:
        headers = retry_after(1)
    return Failure(status, error.message, error.reason.lower(), error.metadata.get("field"), headers)


def _http_message(error: HTTPException) -> str:
    if error.status_code == 404:
        return "There is nothing at this address."
    if error.status_code == 405:
        return f"This address does not take that method; it takes {(error.headers or {}).get('Allow', 'another one')}."
    return str(error.detail)


def _invalid(error: ErrorDetails, where: Sequence[int | str]) -> Failure:
    if error["type"] == "json_invalid":
        return Failure(400, "The body is not valid JSON.", "invalid_json")
    param = ".".join(map(str, where)) or None
    return Failure(400, f"{param or 'body'}: {error['msg']}.", "invalid_field", param)
