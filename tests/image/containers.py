"""Runs the images of the services as a cluster does: read-only root, a user without rights, no capabilities."""

import contextlib
import json
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import httpx2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from local.image_engine import Engine

# Generous: the machine may be busy with other tests, and process starts compete for it.
START_SECONDS = 180
HARDENED = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--network", "host")
TMP = ("--tmpfs", "/tmp:size=268435456,mode=1777")


@dataclass(frozen=True)
class Mounts:
    """Folders of this machine, `host: inside`, read-only, and folders in memory that can be written."""

    read: Mapping[Path, str] = field(default_factory=dict)
    write: tuple[str, ...] = ()

    def options(self) -> list[str]:
        shown = [f"{host}:{inside}:ro" for host, inside in self.read.items()]
        held = [f"{inside}:size=268435456,mode=1777" for inside in self.write]
        return [part for one in shown for part in ("--volume", one)] + [
            part for one in held for part in ("--tmpfs", one)
        ]


@dataclass(frozen=True)
class Container:
    """A container that was started; `port` is where it serves."""

    engine: Engine
    name: str
    service: str
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def log(self) -> str:
        done = subprocess.run([*self.engine.command, "logs", self.name], check=False, capture_output=True, text=True)
        return done.stdout + done.stderr

    def state(self) -> dict:
        return json.loads(self.engine.call("inspect", "--format", "{{json .State}}", self.name))

    def status_in_proc(self) -> dict[str, str]:
        """What the kernel says of the first process."""
        text = Path(f"/proc/{self.state()['Pid']}/status").read_text()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}

    def run(self, *command: str) -> str:
        """Output of a command inside."""
        return self.engine.call("exec", self.name, *command)

    def stop(self, seconds: int) -> float:
        """SIGTERM, and SIGKILL after `seconds`; answers how long it took."""
        began = time.monotonic()
        self.engine.call("stop", "--time", str(seconds), self.name, seconds=seconds + 60)
        return time.monotonic() - began

    def is_healthy(self) -> bool:
        if self.service in HTTP:
            with contextlib.suppress(httpx2.HTTPError), httpx2.Client(trust_env=False) as client:
                return client.get(f"http://{self.address}{HTTP[self.service]}", timeout=5).status_code == 200
            return False
        with contextlib.suppress(grpc.RpcError), grpc.insecure_channel(self.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
            return answer.status == health_pb2.HealthCheckResponse.SERVING
        return False

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.is_healthy():
            if not self.state()["Running"] or time.monotonic() > deadline:
                raise AssertionError(f"{self.service} is not healthy: {self.state()}\n{self.log()[-3000:]}")
            time.sleep(0.3)


HTTP = {"gateway": "/healthz", "understudy": "/health"}


def start(
    engine: Engine, image: str, service: str, port: int, environment: Mapping[str, str], mounts: Mounts, user: str = ""
) -> Container:
    """Starts one in the background, with nothing but what the chart gives it; `user` takes the place of the image's."""
    name = f"sabueso-test-{service}-{uuid.uuid4().hex[:8]}"
    variables = {"SABUESO_HOST": "127.0.0.1", "SABUESO_PORT": str(port)} | environment
    engine.call(
        *("run", "--detach", "--name", name, *HARDENED, *TMP, *engine.limits, *mounts.options()),
        *(("--user", user) if user else ()),
        *(part for key, value in variables.items() for part in ("--env", f"{key}={value}")),
        image,
    )
    return Container(engine, name, service, port)


@contextlib.contextmanager
def removed(engine: Engine) -> Iterator[list[Container]]:
    """Those that are put into the list are gone after the block."""
    started: list[Container] = []
    try:
        yield started
    finally:
        for container in started:
            with contextlib.suppress(subprocess.SubprocessError):
                engine.call("rm", "--force", container.name)
