"""A whole stack of its own in which every process is reached through a proxy, and may be killed, paused or doubled."""

import configparser
import contextlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx2
import psutil
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from local import ports
from local.programs import GRPC_SERVICES, MARK
from local.supervisor import Supervisor
from tests.chaos.clocks import Clocks
from tests.chaos.tcp_proxy import Proxies

PROCESSES = ("gateway", *GRPC_SERVICES, "understudy", "valkey", "postgres")
# Limits are on, and counted in Valkey, but never reached.
_LIMITS = {
    "requests_per_minute": 1_000_000,
    "tokens_per_minute": 1_000_000_000,
    "daily_tokens": 1_000_000_000_000,
    "concurrent_requests": 1_000,
}
TENANTS = ("demo", "other")
# Folders that can be full, each a file system of its own: bytes.
DISKS = {"spool": 64 << 20, "valkey": 96 << 20, "vectors": 192 << 20, "postgres": 640 << 20}
_SERVES_SECONDS = 90


class ChaosStack:
    """A running stack. Callers, this one too, go through its `proxies`."""

    def __init__(self, home: Path, proxies: Proxies, doubles: dict[str, list[int]], clocks: Clocks) -> None:
        self.home = home
        self.clocks = clocks
        self.proxies = proxies
        self._doubles = doubles
        self._supervisor = Supervisor(home)
        plan: dict[str, Any] = json.loads((home / "plan.json").read_text())
        self.ports: dict[str, int] = {"gateway": plan["options"]["port"], **plan["ports"]}
        # What part of the usual load this machine bears now.
        self.pace = 1.0
        self.keys: dict[str, str] = json.loads((home / "keys.json").read_text())

    @property
    def url(self) -> str:
        """The gateway's, through its proxy."""
        return f"http://127.0.0.1:{self.proxies.ports['gateway']}"

    def pids(self) -> dict[str, int]:
        """Of all processes; 0 for one that does not run."""
        return {one.name: one.pid for one in self._supervisor.programs()}

    def kill(self, name: str) -> None:
        """The whole process group of it, as a container ends; supervisord starts it again."""
        pid = self.pids()[name]
        children = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):  # it may have gone with its parent
                child.kill()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """SIGSTOP, and SIGCONT at the end."""
        process = psutil.Process(self.pids()[name])
        stopped = [process, *process.children(recursive=True)]
        for one in stopped:
            one.suspend()
        try:
            yield
        finally:
            for one in stopped:
                one.resume()

    @contextmanager
    def full(self, disk: str) -> Iterator[None]:
        """Not a byte more fits on it, until the end of the block."""
        ballast = self.home / disk / ".ballast"
        try:
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                for size in (1 << 20, 4096, 1):
                    with contextlib.suppress(OSError):
                        while file.write(bytes(size)) == size:
                            pass
            yield
        finally:
            ballast.unlink()

    @contextmanager
    def limited(self, name: str, limit: int, most: int) -> Iterator[None]:
        """A limit of `resource` of the running process, until the end of the block."""
        pid = self.pids()[name]
        _, hard = before = resource.prlimit(pid, limit)
        resource.prlimit(pid, limit, (most, hard))
        try:
            yield
        finally:
            resource.prlimit(pid, limit, before)

    def log(self, name: str) -> str:
        """What a process wrote since the stack began."""
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def environment(self, name: str) -> tuple[list[str], dict[str, str]]:
        """Command and settings of a service, for another process like it."""
        parser = configparser.RawConfigParser()
        parser.read(self.home / "supervisord.conf")
        section = parser[f"program:{name}"]
        pairs = re.findall(r'(\w+)="([^"]*)"', section["environment"].replace("%%", "%"))
        return shlex.split(section["command"]), dict(pairs)

    @contextmanager
    def doubled(self, name: str) -> Iterator[int]:
        """A second process of a service behind the same proxy until the end of the block; its id."""
        port, metrics = ports.pick(2, ports.random_start())
        command, environment = self.environment(name)
        environment |= {"SABUESO_PORT": str(port), "SABUESO_METRICS_PORT": str(metrics) if name != "gateway" else "0"}
        environment |= {"PATH": os.environ["PATH"], MARK: str(self.home)}
        log = (self.home / "logs" / f"{name}-2.log").open("ab")
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=Path.cwd())
        try:
            self.until_serving(name, port)
            self._doubles[name] = [self.ports[name], port]
            yield process.pid
            self.leave_out(name, port)
        finally:
            self._doubles.pop(name, None)
            process.terminate()
            process.wait(60)
            log.close()

    def leave_out(self, name: str, port: int) -> None:
        """New connections go to the others, as a cluster's endpoints do once a pod is told to end."""
        self._doubles[name] = [one for one in self._doubles.get(name, [self.ports[name]]) if one != port]

    def take_in(self, name: str, port: int) -> None:
        """New connections go there too."""
        self._doubles[name] = [*self._doubles.get(name, []), port]

    def until_serving(self, name: str, port: int = 0, seconds: float = _SERVES_SECONDS) -> float:
        """Seconds until it serves by its own word. Fails after `seconds`."""
        began = time.monotonic()
        while not self.serves(name, port or self.ports[name]):
            assert time.monotonic() < began + seconds, f"{name} does not serve after {seconds:.0f} s"
            time.sleep(0.05)
        return time.monotonic() - began

    def serves(self, name: str, port: int) -> bool:
        """Whether it says so itself, not through the proxy."""
        if name in ("gateway", "understudy"):
            return _answers(f"http://127.0.0.1:{port}/{'healthz' if name == 'gateway' else 'health'}")
        if name in GRPC_SERVICES:
            return _grpc_serves(port)
        return not ports.is_free(port)


@contextmanager
def disks(home: Path) -> Iterator[None]:
    """Mounts them; where that is not allowed all is on one disk, and none can be full."""
    mounted: list[Path] = []
    for name, size in DISKS.items():
        (home / name).mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(home / name)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            mounted.append(home / name)
    try:
        yield
    finally:
        for path in mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=False)
        shutil.rmtree(home, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx2.HTTPError:
        return False


def _grpc_serves(port: int) -> bool:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)
        except grpc.RpcError:
            return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING


def _command(
    home: Path, environment: Mapping[str, str], seconds: float, *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "local.stack", *words],
        env=os.environ | environment | {"SABUESO_HOME": str(home), "SABUESO_UP_SECONDS": "300"},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


@contextmanager
def chaos_stack() -> Iterator[ChaosStack]:
    """Stopped and forgotten at the end of the block. Fails when it does not start."""
    # A killed run stops its stack too, as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    home = Path(tempfile.mkdtemp(prefix="sabueso-chaos-"))
    (home / "models").symlink_to(Path(".sabueso/models").resolve())
    doubles: dict[str, list[int]] = {}
    listening: dict[str, int] = {"gateway": ports.pick(1, ports.random_start())[0]}

    def upstreams(name: str) -> list[int]:
        if name not in listening and (home / "plan.json").exists():
            listening.update(json.loads((home / "plan.json").read_text())["ports"])
        return doubles.get(name) or [listening[name]] if name in listening else []

    with Proxies(PROCESSES, upstreams) as proxies, disks(home):
        clocks = Clocks(home / "clocks", PROCESSES)
        try:
            up = ("up", "--detach", "--port", str(listening["gateway"]), "--profile", "h100-tp4")
            started = _command(home, clocks.environment, 900, *up, "--doors", json.dumps(proxies.ports))
            assert started.returncode == 0, started.stdout + started.stderr
            _raise_limits(home)
            yield ChaosStack(home, proxies, doubles, clocks)
        finally:
            _command(home, {}, 120, "down")


def _raise_limits(home: Path) -> None:
    for tenant in TENANTS:
        path = home / "tenants" / f"{tenant}.yaml"
        # In the order of the file: that of a verified query's parameters matters.
        said = yaml.safe_load(path.read_text(encoding="utf-8")) | {"limits": _LIMITS}
        half = path.with_suffix(".new")
        half.write_text(yaml.safe_dump(said, allow_unicode=True, sort_keys=False), encoding="utf-8")
        half.replace(path)
