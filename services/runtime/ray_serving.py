"""What runs in a replica of Ray Serve: a service's servicer behind the same boundary as in a server of its own."""

import logging
from typing import Any

import grpc
from google.protobuf import empty_pb2
from grpc_health.v1 import health_pb2
from prometheus_client import start_http_server
from ray import serve  # pyright: ignore  (in an environment of its own: group `ray`)

from services.runtime import garbage, telemetry
from services.runtime.identity import Signer
from services.runtime.listening import address_of
from services.runtime.ray_ingress import SECONDS_LEFT
from services.runtime.server import Boundary, Served
from services.runtime.settings import ServerSettings, checked

log = logging.getLogger(__name__)


class Replica:
    """One replica: settings from the environment, warm before it takes calls, ended by Ray after its calls.

    A subclass says what is served by `make`, and has a method for each of the proto's, which asks `answer`. Ray finds
    methods by name on the class, and gives its context to what is called `grpc_context`.
    """

    service: str

    def make(self) -> tuple[ServerSettings, Served]:
        """The settings, and what they make. Ends the process with status 78 when they are wrong."""
        raise NotImplementedError

    async def __init__(self) -> None:  # pyright: ignore
        # Ray awaits it: the replica counts as started when it is warm.
        settings, served = self._made()
        signer = Signer(
            settings.identity_secret.get_secret_value(), settings.identity_secret_fallbacks.get_secret_value()
        )
        self._boundary = Boundary(self.service, signer)
        self._prefix = f"/{served.descriptor.full_name}/"
        self._methods = _Methods()
        served.add(served.servicer, self._methods)  # pyright: ignore[reportArgumentType]
        if served.warm_up is not None:
            await served.warm_up()
        garbage.settle()
        log.info("serving")

    def _made(self) -> tuple[ServerSettings, Served]:
        with checked():
            settings, served = self.make()
        telemetry.start(self.service, settings.model_copy(update={"metrics_port": 0}))
        if settings.metrics_port:
            try:
                start_http_server(settings.metrics_port, addr=address_of(settings.host))
            except OSError:  # a replica beside this one, on the same node
                log.warning("no metrics: the port is taken", extra={"port": settings.metrics_port})
        return settings, served

    async def answer(self, method: str, request: Any, ray_context: Any) -> Any:
        """What the servicer answers, or an empty message with the failure's status in the context.

        A status that is raised instead would lose its details on the way through Ray.
        """
        details = _Details(self._prefix + method)
        handler = await self._boundary.intercept_service(self._methods.find, details)
        try:
            return await handler.unary_unary(request, _ReplicaContext(ray_context))
        except _Refused as refused:
            status = refused.status
            ray_context.set_code(status.code)
            ray_context.set_details(status.details)
            ray_context.set_trailing_metadata(list(status.trailing_metadata))
            return empty_pb2.Empty()

    async def Check(self, request: Any, grpc_context: Any) -> Any:
        """The health check of gRPC: a replica that is asked is warm."""
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


class _Details:
    def __init__(self, method: str) -> None:
        self.method = method


class _Refused(Exception):
    def __init__(self, status: Any) -> None:
        self.status = status


class _Methods:
    """Takes a server's place in generated code: keeps the handlers."""

    def __init__(self) -> None:
        self._handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Any) -> None:
        """The same handlers as below."""

    def add_registered_method_handlers(self, service_name: str, method_handlers: dict[str, Any]) -> None:
        for name, handler in method_handlers.items():
            self._handlers[f"/{service_name}/{name}"] = handler

    async def find(self, details: Any) -> Any:
        return self._handlers[details.method]


class _ReplicaContext:
    """The part of gRPC's context that the boundary and generated code use, over Ray's."""

    def __init__(self, ray_context: Any) -> None:
        self._metadata: list[tuple[str, Any]] = ray_context.invocation_metadata()
        self._code: grpc.StatusCode | None = None

    def invocation_metadata(self) -> list[tuple[str, Any]]:
        return self._metadata

    def time_remaining(self) -> float | None:
        """Seconds that the caller had left at the proxy; None when it waits for ever."""
        return next((float(value) for key, value in self._metadata if key == SECONDS_LEFT), None)

    def code(self) -> grpc.StatusCode | None:
        return self._code

    def set_code(self, code: grpc.StatusCode) -> None:
        self._code = code

    def set_details(self, details: str) -> None:
        """The boundary says it better."""

    async def abort_with_status(self, status: Any) -> None:
        raise _Refused(status)


def deployment(replica: type[Replica]) -> Any:
    """`replica` as a deployment that grows with its queue; each of these can be set in `serveConfigV2` instead.

    Batching stays with the service's own queue: `serve.batch` knows a count and a wait, and neither tokens, nor
    searches before documents, nor callers who have gone.
    """
    return serve.deployment(  # pyright: ignore
        name=replica.__name__,
        max_ongoing_requests=64,
        max_queued_requests=256,
        max_replicas_per_node=1,
        autoscaling_config={"min_replicas": 1, "max_replicas": 8, "target_ongoing_requests": 16},
        ray_actor_options={"num_cpus": 2},
    )(replica)
