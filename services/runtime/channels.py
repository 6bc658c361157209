"""Client channels: addresses, retries, deadlines, traces and identity, the same way for every caller."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from grpc import aio
from opentelemetry import propagate
from opentelemetry.propagators.textmap import Setter

from services.runtime import context
from services.runtime.identity import METADATA_KEY
from services.runtime.server import MAX_MESSAGE_BYTES

# A hung peer is noticed after about 10 + 5 seconds without an answer to a ping.
_KEEPALIVE_MS, _KEEPALIVE_TIMEOUT_MS = 10_000, 5_000


def connect(address: str, *services: ServiceDescriptor) -> aio.Channel:
    """A channel to `host:port`, spread over all addresses of the name.

    Reads of `services` (NO_SIDE_EFFECTS in the proto) are tried up to three times when the server is UNAVAILABLE. Every
    call carries the identity of the current call and never outlives it.
    """
    options = [
        ("grpc.service_config", json.dumps(_service_config(services))),
        ("grpc.enable_retries", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ]
    target = address if "://" in address or address.startswith("unix:") else f"dns:///{address}"
    passing_on = [_UnaryUnary(), _UnaryStream(), _StreamUnary()]
    return aio.insecure_channel(target, options=options, interceptors=passing_on)


def _service_config(services: tuple[ServiceDescriptor, ...]) -> dict[str, Any]:
    reads = [
        {"service": service.full_name, "method": method.name}
        for service in services
        for method in service.methods
        if method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    ]
    retry = {
        "maxAttempts": 3,
        "initialBackoff": "0.05s",
        "maxBackoff": "0.5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if reads:
        config["methodConfig"] = [{"name": reads, "retryPolicy": retry}]
        config["retryThrottling"] = {"maxTokens": 20, "tokenRatio": 0.5}
    return config


def _passed_on(details: Any) -> Any:
    """`details` with the identity of the current call, and no more time than it has left."""
    call = context.current()
    if call is None:
        return details
    metadata = aio.Metadata(*(details.metadata or ()))
    if METADATA_KEY not in metadata:
        metadata.add(METADATA_KEY, call.token)
    # Not the instrumentation package: its interceptors wait for the answer, and a cancelled caller is never noticed.
    propagate.inject(metadata, setter=_SETTER)
    limits = [seconds for seconds in (details.timeout, call.seconds_left()) if seconds is not None]
    return aio.ClientCallDetails(
        details.method, min(limits, default=None), metadata, details.credentials, details.wait_for_ready
    )


class _MetadataSetter(Setter[aio.Metadata]):
    def set(self, carrier: aio.Metadata, key: str, value: str) -> None:
        carrier.add(key, value)


_SETTER = _MetadataSetter()


class _UnaryUnary(aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        return await continuation(_passed_on(client_call_details), request)


class _UnaryStream(aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> AsyncIterator[Any]:
        return await continuation(_passed_on(client_call_details), request)


class _StreamUnary(aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await continuation(_passed_on(client_call_details), request_iterator)
