"""What runs in Ray Serve's gRPC proxies: passes deadlines on, and says Ray's own refusals in our words.

To be named first in `grpc_servicer_functions`: it concerns the services that are named after it. Knows Ray by what it
is given only, so that it can be imported where Ray is not.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
from grpc_status import rpc_status

from services.runtime import errors

log = logging.getLogger(__name__)

# The caller's time at the proxy: of gRPC's context Ray sends the replica metadata only. Not the time of day, as clocks
# differ; a call that waited for a replica is ended by the proxy in time all the same.
SECONDS_LEFT = "x-sabueso-seconds-left"
_DETAILS = "grpc-status-details-bin"
_OURS = "/sabueso."
_NAMES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


def boundary(servicer: Any, server: Any) -> None:
    """Has the signature of the functions that add a servicer to a server; `server` is Ray's."""
    make = server.service_handler_factory

    def made(service_method: str, streaming_type: Any) -> Callable[[Any, Any], Any]:
        handler = make(service_method=service_method, streaming_type=streaming_type)
        unary = streaming_type.value == "unary_unary" and service_method.startswith(_OURS)
        return _guarded(handler, service_method) if unary else handler

    server.service_handler_factory = made


def _guarded(handler: Callable[[Any, Any], Any], method: str) -> Callable[[Any, Any], Any]:
    # `/sabueso.embedding.v1.EmbeddingService/Embed` is for the application `embedding`.
    application = method.split(".")[1]

    async def guarded(request: Any, context: Any) -> Any:
        answer = await handler(request, _ProxyContext(context, application))
        code = _code(context)
        if code not in ("OK", "CANCELLED") and _DETAILS not in dict(context.trailing_metadata() or ()):
            # No replica said so, whose boundary gives details: what Ray says may quote a traceback.
            log.warning("Ray gave no answer", extra={"method": method, "code": code})
            _refuse(context, _translated(code))
        return answer

    return guarded


class _ProxyContext:
    """gRPC's context, with metadata that Ray reads (`application`) and passes on to the replica."""

    def __init__(self, context: Any, application: str) -> None:
        self._context = context
        left = context.time_remaining()
        given = [pair for pair in context.invocation_metadata() or () if pair[0] not in ("application", SECONDS_LEFT)]
        added = [("application", application)] + ([(SECONDS_LEFT, f"{left:.6f}")] if left is not None else [])
        self._metadata = (*given, *added)

    def invocation_metadata(self) -> tuple[Any, ...]:
        return self._metadata

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _code(context: Any) -> str:
    code = context.code() or 0
    return code.name if isinstance(code, grpc.StatusCode) else _NAMES[code]


def _translated(code: str) -> errors.ServiceError:
    match code:
        case "RESOURCE_EXHAUSTED":  # more than `max_queued_requests` wait
            return errors.Overloaded("The queue is full.", retry_after=timedelta(seconds=1))
        case "DEADLINE_EXCEEDED":  # `request_timeout_s`
            return errors.DeadlineExceeded("No replica answered in time.", stage="ray")
        case _:
            return errors.DependencyFailed("No replica answers.", dependency="replica")


def _refuse(context: Any, error: errors.ServiceError) -> None:
    status: Any = rpc_status.to_status(errors.to_status(error))  # pyright: ignore[reportUnknownMemberType]
    context.set_code(status.code)
    context.set_details(status.details)
    context.set_trailing_metadata((*(context.trailing_metadata() or ()), *status.trailing_metadata))
