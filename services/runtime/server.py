"""Starts, guards and stops a gRPC server, the same way in every service."""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import uvloop
from google.protobuf.descriptor import ServiceDescriptor
from google.rpc import status_pb2
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status
from opentelemetry import propagate, trace

from services.runtime import context, errors, garbage, telemetry
from services.runtime.identity import METADATA_KEY, Signer
from services.runtime.settings import ServerSettings, checked

log = logging.getLogger(__name__)
_tracer = trace.get_tracer("sabueso")

# Bounded: texts and vectors of one batch fit; larger things are streamed.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
_OPEN_METHODS = ("/grpc.health.v1.Health/", "/grpc.reflection.")
_CODE_NAMES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}
# Codes with which a trace shows a server's failure rather than a caller's, as OpenTelemetry's conventions have it.
_OUR_FAULT = ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")


@dataclass(frozen=True)
class Served:
    """A servicer, how to add it to a server, and what it is called.

    `warm_up` runs after the port is open and before health says SERVING; `close` runs after the drain.
    """

    servicer: Any
    add: Callable[[Any, aio.Server], None]
    descriptor: ServiceDescriptor
    warm_up: Callable[[], Awaitable[None]] | None = None
    close: Callable[[], Awaitable[None]] | None = None


class Boundary(aio.ServerInterceptor):
    """The one place where identities are checked, exceptions become statuses and calls are counted."""

    def __init__(self, service: str, signer: Signer) -> None:
        self._service = service
        self._signer = signer

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Wraps the method's handler, whichever of the four kinds it is."""
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        if handler is None or method.startswith(_OPEN_METHODS):
            return handler
        codec = handler.request_deserializer, handler.response_serializer
        if handler.response_streaming:
            behaviour = handler.stream_stream if handler.request_streaming else handler.unary_stream

            # Writes and does not yield: gRPC leaves the generator of a caller who hung up to the garbage collector.
            async def stream(request: Any, ctx: Any) -> None:
                async with self._call(method, ctx), aclosing(behaviour(request, ctx)) as responses:
                    async for response in responses:
                        await ctx.write(response)

            wrap = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
            return wrap(stream, *codec)
        behaviour = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def unary(request: Any, ctx: Any) -> Any:
            async with self._call(method, ctx):
                return await behaviour(request, ctx)

        wrap = (
            grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
        )
        return wrap(unary, *codec)

    @asynccontextmanager
    async def _call(self, method: str, ctx: Any) -> AsyncGenerator[None]:
        started = time.perf_counter()
        code = "OK"
        status = None
        metadata: dict[str, str] = dict(ctx.invocation_metadata() or ())
        # Exceptions are not recorded: their messages may quote a statement or a text, and traces leave the building.
        span = _tracer.start_as_current_span(
            method,
            propagate.extract(metadata),
            trace.SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        )
        with span as current:  # around the logging too, which names the trace
            try:
                self._identify(ctx, metadata)
                yield
            except (asyncio.CancelledError, GeneratorExit):
                code = "CANCELLED"
                raise
            except Exception as error:
                status = self._status_of(error, method, ctx)
                code = _CODE_NAMES[status.code]
            finally:
                took = time.perf_counter() - started
                current.set_attribute("rpc.response.status_code", code)
                if code in _OUR_FAULT:
                    current.set_status(trace.StatusCode.ERROR)
                name = method.rsplit("/", 1)[-1]
                telemetry.CALL_SECONDS.labels(self._service, name, code).observe(took)
                level = logging.DEBUG if code == "OK" else logging.INFO
                log.log(level, "call", extra={"method": method, "code": code, "took_ms": round(1000 * took, 1)})
            if status is not None:
                await ctx.abort_with_status(rpc_status.to_status(status))  # pyright: ignore[reportUnknownMemberType]

    def _status_of(self, error: Exception, method: str, ctx: Any) -> status_pb2.Status:
        """What the caller gets to know of `error`."""
        if isinstance(error, errors.ServiceError):
            return errors.to_status(error)
        if isinstance(error, aio.AioRpcError):
            # A logic file lost a called service without naming it: the caller still learns what kind of failure it was.
            log.warning("a called service failed", extra={"method": method, "code": error.code().name})
            known = errors.from_rpc(error, "a dependency")
            return errors.to_status(known) if known else errors.internal_status()
        # Generated code says so of a method that the servicer does not have; elsewhere the same exception is a bug.
        if isinstance(error, NotImplementedError) and ctx.code() is grpc.StatusCode.UNIMPLEMENTED:
            return errors.unimplemented_status(f"{self._service} does not offer {method.rsplit('/', 1)[-1]} yet.")
        log.error("unexpected error", exc_info=error, extra={"method": method})
        return errors.internal_status()

    def _identify(self, ctx: Any, metadata: dict[str, str]) -> None:
        token = metadata.get(METADATA_KEY)
        if not token:
            raise errors.Unauthenticated("The call carries no identity.")
        left = ctx.time_remaining()
        deadline = None if left is None else time.monotonic() + left
        context.enter(context.CallContext(self._signer.verify(token), token, deadline))


def build(
    service: str, served: Sequence[Served], signer: Signer, *, max_connection_age_seconds: float = 300
) -> tuple[aio.Server, health.aio.HealthServicer]:
    """A guarded server with health and reflection, not yet listening. Health is NOT_SERVING until told otherwise."""
    server = aio.server(
        interceptors=[Boundary(service, signer)],
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_connection_age_ms", int(max_connection_age_seconds * 1000)),
            ("grpc.max_connection_age_grace_ms", 600_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.so_reuseport", 0),
        ],
    )
    health_servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    for one in served:
        one.add(one.servicer, server)
    names = [one.descriptor.full_name for one in served]
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    return server, health_servicer


async def set_health(health_servicer: health.aio.HealthServicer, served: Sequence[Served], serving: bool) -> None:
    """Says of every service, and of the process as a whole, whether it can serve."""
    status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in ["", *(one.descriptor.full_name for one in served)]:
        await health_servicer.set(name, status)


async def serve(service: str, settings: ServerSettings, make: Callable[[], Awaitable[Sequence[Served]]]) -> None:
    """Serves until SIGTERM or SIGINT, then refuses new calls and lets running ones finish.

    `make` builds the servicers inside the event loop. Ends the process with status 69 when the port is taken, and 78
    when `make` raises WrongSetting.
    """
    telemetry.start(service, settings)
    stop = asyncio.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    with checked():
        served = await make()
    signer = Signer(settings.identity_secret.get_secret_value(), settings.identity_secret_fallbacks.get_secret_value())
    server, health_servicer = build(
        service, served, signer, max_connection_age_seconds=settings.max_connection_age_seconds
    )
    await set_health(health_servicer, served, False)
    try:
        server.add_insecure_port(f"{settings.host}:{settings.port}")
    except RuntimeError:
        log.error("port is taken", extra={"port": settings.port, "setting": "SABUESO_PORT"})
        raise SystemExit(69) from None  # EX_UNAVAILABLE
    await server.start()
    warming = asyncio.create_task(_warm_up(health_servicer, served))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({warming, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if warming.done() and warming.exception() is None:
        log.info("serving", extra={"port": settings.port})
        await stopping
    stopping.cancel()
    warming.cancel()
    await asyncio.gather(warming, return_exceptions=True)
    await set_health(health_servicer, served, False)
    await server.stop(settings.shutdown_grace_seconds)
    for one in served:
        if one.close is not None:
            await one.close()
    if not warming.cancelled():
        await warming  # a failed warm-up ends the process with its reason


async def _warm_up(health_servicer: health.aio.HealthServicer, served: Sequence[Served]) -> None:
    for one in served:
        if one.warm_up is not None:
            await one.warm_up()
    garbage.settle()
    await set_health(health_servicer, served, True)


def run(service: str, settings: ServerSettings, make: Callable[[], Awaitable[Sequence[Served]]]) -> None:
    """The whole life of a service process. `main()` of each service ends here."""
    uvloop.run(serve(service, settings, make))
