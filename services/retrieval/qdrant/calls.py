"""Calls of a Qdrant server: made again while it does not answer; what fails in the end says so in our words."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import grpc
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from services.runtime.errors import DependencyFailed

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

_PAUSES_SECONDS = (0.1, 0.5)
_PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_FAILURES = (grpc.aio.AioRpcError, ResponseHandlingException, UnexpectedResponse, QdrantException, OSError)


async def answered(
    method: Callable[Parameters, Awaitable[Answer]], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Answer:
    """What the client's method answers. Raises DependencyFailed.

    The call may reach the server more than once: it must do the same thing twice, as all calls of this store do.
    """
    for pause in (*_PAUSES_SECONDS, None):
        try:
            return await method(*args, **kwargs)
        except _FAILURES as error:
            if not _is_passing(error):
                raise DependencyFailed("The vector store refused a request.", dependency="qdrant") from error
            if pause is None:
                raise DependencyFailed("The vector store does not answer.", dependency="qdrant") from error
            await asyncio.sleep(pause)
    raise AssertionError("the last round returns or raises")


def _is_passing(error: Exception) -> bool:
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code() in _PASSING
    if isinstance(error, UnexpectedResponse):
        return error.status_code in (503, 504)
    return isinstance(error, ResponseHandlingException | OSError)
