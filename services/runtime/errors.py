"""Failures a caller can act on.

Logic raises these; `server.py` alone turns them into gRPC statuses, and the gateway alone into HTTP.

    ServiceError
      InvalidField       the request is malformed whatever the state of the system
      Unauthenticated    nobody we know is asking
      NotPermitted       a rule forbids it
      NotFound           there is no such thing for this tenant
      SqlError           the statement is wrong; the message lets a model repair it
      ModelMismatch      vectors of two embedding models cannot be compared
      LimitExceeded      the tenant asked for more than its limits allow
      Overloaded         we shed load; the same call may succeed later
      DependencyFailed   something that we need does not answer
      DeadlineExceeded   the caller's time is used up
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar, cast

from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from grpc.aio import AioRpcError

# Statuses travel in trailing metadata, of which gRPC takes 16 kB in all: more, and the caller learns nothing.
_MAX_MESSAGE_BYTES, _MAX_METADATA_BYTES = 2_000, 1_000
DOMAIN = "sabueso"


class ServiceError(Exception):
    """Base class. A subclass names one cause, and its `reason` never changes once released."""

    code: ClassVar[StatusCode]
    reason: ClassVar[str]
    meaning: ClassVar[str]

    def __init__(self, message: str, *, retry_after: timedelta | None = None, **metadata: str) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        self.metadata: Mapping[str, str] = metadata


class InvalidField(ServiceError):
    """A request field is malformed whatever the state of the system; metadata `field` names it."""

    code = StatusCode.INVALID_ARGUMENT
    reason = "INVALID_FIELD"
    meaning = "a field is malformed; `field` names it"


class Unauthenticated(ServiceError):
    """Nobody we know is asking."""

    code = StatusCode.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"
    meaning = "the key or the signed identity is missing, wrong or expired"


class NotPermitted(ServiceError):
    """A rule forbids it; metadata `rule` names the rule."""

    code = StatusCode.PERMISSION_DENIED
    reason = "NOT_PERMITTED"
    meaning = "a rule forbids it; `rule` names it"


class NotFound(ServiceError):
    """There is no such thing for this tenant."""

    code = StatusCode.NOT_FOUND
    reason = "NOT_FOUND"
    meaning = "there is no such thing for this tenant"


class SqlError(ServiceError):
    """The statement is wrong. Message, `position` and `hint` let a model repair it."""

    code = StatusCode.FAILED_PRECONDITION
    reason = "SQL_ERROR"
    meaning = "the statement is wrong; `sqlstate`, `position` and `hint` help to repair it"


class ModelMismatch(ServiceError):
    """Vectors of two models cannot be compared; metadata `collection` and `model` say whose."""

    code = StatusCode.FAILED_PRECONDITION
    reason = "MODEL_MISMATCH"
    meaning = "a collection's vectors come from another embedding model than the one that is served; migrate it"


class LimitExceeded(ServiceError):
    """The tenant asked for more than its limits allow; metadata `setting` names the limit."""

    code = StatusCode.RESOURCE_EXHAUSTED
    reason = "LIMIT_EXCEEDED"
    meaning = "the tenant's limit is used up; `setting` names it"


class Overloaded(ServiceError):
    """The server sheds load; the same call may succeed after `retry_after`."""

    code = StatusCode.UNAVAILABLE
    reason = "OVERLOADED"
    meaning = "load is being shed; try again after the given time"


class DependencyFailed(ServiceError):
    """Something that this service needs does not answer; metadata `dependency` names it."""

    code = StatusCode.UNAVAILABLE
    reason = "DEPENDENCY_FAILED"
    meaning = "something that the service needs does not answer; `dependency` names it"


class DeadlineExceeded(ServiceError):
    """The caller's time is used up; metadata `stage` says where."""

    code = StatusCode.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"
    meaning = "the time for the call is used up; `stage` says where"


ALL: tuple[type[ServiceError], ...] = (
    InvalidField,
    Unauthenticated,
    NotPermitted,
    NotFound,
    SqlError,
    ModelMismatch,
    LimitExceeded,
    Overloaded,
    DependencyFailed,
    DeadlineExceeded,
)
_BY_REASON = {cls.reason: cls for cls in ALL}


def to_status(error: ServiceError) -> status_pb2.Status:
    """Renders `error` as `google.rpc.Status`, always with one `ErrorInfo` (AIP-193)."""
    message = _cut(error.message, _MAX_MESSAGE_BYTES)
    metadata = {name: _cut(value, _MAX_METADATA_BYTES) for name, value in error.metadata.items()}
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)]
    if isinstance(error, InvalidField) and "field" in metadata:
        violation = error_details_pb2.BadRequest.FieldViolation(field=metadata["field"], description=message)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromTimedelta(error.retry_after)
        details.append(retry)
    return _status(error.code, message, details)


def _cut(text: str, most: int) -> str:
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= most else encoded[: most - 3].decode(errors="ignore") + "…"


def internal_status() -> status_pb2.Status:
    """What a caller sees of a bug: nothing but the fact."""
    info = error_details_pb2.ErrorInfo(reason="INTERNAL", domain=DOMAIN)
    return _status(StatusCode.INTERNAL, "internal error", [info])


def unimplemented_status(message: str) -> status_pb2.Status:
    """For a method of the proto that a service does not have yet."""
    info = error_details_pb2.ErrorInfo(reason="UNIMPLEMENTED", domain=DOMAIN)
    return _status(StatusCode.UNIMPLEMENTED, message, [info])


def from_rpc(error: AioRpcError, dependency: str) -> ServiceError | None:
    """The error that the called service raised, or what its silence means to us.

    Returns None where the called service had a bug, or spoke of something that is ours to explain.
    """
    status = _rich_status(error)
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            cls = _BY_REASON.get(info.reason)
            if cls is not None and status is not None:
                metadata = {k: v for k, v in info.metadata.items() if k not in ("message", "retry_after")}
                return cls(status.message, retry_after=_retry_after(status), **metadata)
    match error.code():
        case StatusCode.UNAVAILABLE:
            return DependencyFailed(f"{dependency} does not answer.", dependency=dependency)
        case StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceeded(f"{dependency} did not answer in time.", stage=dependency)
        case StatusCode.UNIMPLEMENTED:
            return NotFound(f"{dependency} does not offer this yet.", dependency=dependency)
        case StatusCode.INTERNAL if status is None:
            # grpc's own word for a connection that broke in mid-stream; a bug of ours comes with details.
            return DependencyFailed(f"{dependency} broke off.", dependency=dependency)
        case _:
            return None


def _rich_status(error: AioRpcError) -> status_pb2.Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                return status_pb2.Status.FromString(cast(bytes, value))
            except Exception:
                return None
    return None


def _retry_after(status: status_pb2.Status) -> timedelta | None:
    for detail in status.details:
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(retry):
            return retry.retry_delay.ToTimedelta()
    return None


def _status(code: StatusCode, message: str, details: list[Message]) -> status_pb2.Status:
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status
