"""A Kubernetes control plane on loopback with simulated nodes: real decisions about pods, but nothing runs in them.

`python -m local.cluster up | down | run -- command …`. API server, controller manager, scheduler and etcd are the real
ones; kwok plays the nodes.
"""

import argparse
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from local import cluster_identities, cluster_programs, ports

HOME = Path(".sabueso/cluster")
# Generous: a machine that builds something else meanwhile is slow, not broken.
_READY_SECONDS = 180
_STOP_SECONDS = 20


@dataclass
class ControlPlane:
    """The processes of one cluster; all that they write is in `home`, which is emptied at the start."""

    home: Path
    programs: Mapping[str, Path]
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, subprocess.Popen[bytes]])
    _marks: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator; good once `start` has returned."""
        return self.home / "pki" / "admin.kubeconfig"

    def start(self) -> None:
        """Returns when the API server and the controllers serve; raises TimeoutError with the end of a log."""
        stop(self.home)
        shutil.rmtree(self.home, ignore_errors=True)
        (self.home / "logs").mkdir(parents=True)
        keys = self.home / "pki"
        etcd, peers, api = ports.pick(3, ports.random_start())
        server = f"https://127.0.0.1:{api}"
        cluster_identities.prepare(keys, server)
        try:
            self._run("etcd", _etcd(self.home, etcd, peers))
            self._run("kube-apiserver", _api_server(self.home, etcd, api))
            self._until("kube-apiserver", lambda: _answers(f"{server}/readyz", keys))
            for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
                self._run(name, _FOLLOWERS[name](keys))
            # Made by the controllers; no pod is admitted before its namespace has it.
            account = f"{server}/api/v1/namespaces/default/serviceaccounts/default"
            self._until("kube-controller-manager", lambda: _answers(account, keys))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends them; harmless when they have ended."""
        stop(self.home)
        for process in self._running.values():
            process.wait(_STOP_SECONDS)
        self._running.clear()
        self._marks.clear()

    def _run(self, name: str, options: Sequence[str]) -> None:
        with (self.home / "logs" / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C is for the command that uses the cluster, and ends the cluster after it.
            process = self._running[name] = subprocess.Popen(
                [str(self.programs[name]), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with contextlib.suppress(psutil.NoSuchProcess):
            self._marks[name] = process.pid, psutil.Process(process.pid).create_time()
        (self.home / "processes.json").write_text(json.dumps(self._marks))

    def _until(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not ready():
            dead = [one for one, process in self._running.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                blamed = dead[0] if dead else name
                log = (self.home / "logs" / f"{blamed}.log").read_text(errors="replace")[-3000:]
                raise TimeoutError(f"{blamed} {'ended' if dead else 'is not ready'}; the end of its log:\n{log}")
            time.sleep(0.2)


def _etcd(home: Path, port: int, peers: int) -> list[str]:
    clients, others = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    options = {
        "data-dir": str(home / "etcd"),
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": others,
        "initial-advertise-peer-urls": others,
        "initial-cluster": f"default={others}",
        # What it holds is forgotten with the cluster.
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _api_server(home: Path, etcd: int, port: int) -> list[str]:
    keys = home / "pki"
    options = {
        "etcd-servers": f"http://127.0.0.1:{etcd}",
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": str(port),
        "tls-cert-file": str(keys / "server.crt"),
        "tls-private-key-file": str(keys / "server.key"),
        "client-ca-file": str(keys / "ca.crt"),
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": str(keys / "accounts.key"),
        "service-account-signing-key-file": str(keys / "accounts.key"),
        "service-cluster-ip-range": "10.96.0.0/16",
        "authorization-mode": "Node,RBAC",
        # The address of the API server itself is of no use to pods that do not run; loopback would be refused as one.
        "endpoint-reconciler-type": "none",
        "cert-dir": str(keys),
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _controller_manager(keys: Path) -> list[str]:
    options = {
        "kubeconfig": str(keys / "controller-manager.kubeconfig"),
        "service-account-private-key-file": str(keys / "accounts.key"),
        "root-ca-file": str(keys / "ca.crt"),
        "use-service-account-credentials": "true",
        # Claims get volumes as from a cloud: made on demand, deleted after.
        "enable-hostpath-provisioner": "true",
        "leader-elect": "false",
        "secure-port": "0",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _scheduler(keys: Path) -> list[str]:
    return [f"--kubeconfig={keys / 'scheduler.kubeconfig'}", "--leader-elect=false", "--secure-port=0"]


def kwok_options(kubeconfig: Path) -> list[str]:
    """For nodes that say so by kwok's annotation; those of a real cluster are left alone."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={Path(__file__).with_name('cluster_stages.yaml')}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--cidr=10.244.0.0/16",
        "--node-ip=10.0.0.1",
    ]


_FOLLOWERS: Mapping[str, Callable[[Path], list[str]]] = {
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
    "kwok": lambda keys: kwok_options(keys / "admin.kubeconfig"),
}


def _answers(url: str, keys: Path) -> bool:
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "admin.pem")
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            return answer.status == 200
    except OSError:
        return False


def stop(home: Path) -> bool:
    """Ends the processes of the cluster in `home`, the API server's clients first; True when one ran."""
    record = home / "processes.json"
    try:
        marks: dict[str, tuple[int, float]] = json.loads(record.read_text())
    except (OSError, ValueError):
        return False
    running: list[psutil.Process] = []
    for pid, created in marks.values():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            # The number may be another's by now.
            if abs(process.create_time() - created) < 1:
                running.append(process)
    for process in reversed(running):
        with contextlib.suppress(psutil.Error):
            process.terminate()
            process.wait(_STOP_SECONDS)
    for process in psutil.wait_procs(running, timeout=0)[1]:
        process.kill()
    record.unlink(missing_ok=True)
    return bool(running)


@contextlib.contextmanager
def running(home: Path) -> Generator[ControlPlane]:
    """A cluster for as long as the block takes; its programs are built when they are missing."""
    plane = ControlPlane(home.resolve(), cluster_programs.build())
    plane.start()
    try:
        yield plane
    finally:
        plane.stop()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m local.cluster", description=__doc__)
    parser.add_argument("what", choices=["build", "up", "down", "run"])
    parser.add_argument("command", nargs="*", help="for `run`: what to run with KUBECONFIG set, after --")
    wanted = parser.parse_args()
    if wanted.what == "down":
        print("stopped" if stop(HOME.resolve()) else "nothing runs")
        return 0
    try:
        programs = cluster_programs.build()
    except FileNotFoundError as missing:
        print(missing)
        return 1
    if wanted.what == "up":
        plane = ControlPlane(HOME.resolve(), programs)
        plane.start()
        print(f"export KUBECONFIG={plane.kubeconfig}\nkubectl apply -f k8s/kwok   # simulated nodes")
    elif wanted.what == "run":
        with running(HOME) as plane:
            environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
            return subprocess.run(wanted.command, check=False, env=environment).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
