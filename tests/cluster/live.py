"""A cluster as the tests see it: objects are the dicts of their manifests; whatever waits says what it saw last."""

import contextlib
import json
import secrets
import subprocess
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

# For what merely has to happen; a busy machine is slow, not broken.
PATIENCE_SECONDS = 240


class Refused(Exception):
    """A program said no; the message is what it wrote."""


class Cluster:
    """kubectl with one kubeconfig."""

    def __init__(self, kubectl: str, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._command = [kubectl, f"--kubeconfig={kubeconfig}"]

    def run(self, *arguments: str, given: str | None = None) -> str:
        """What kubectl writes; raises Refused with what it complains of. Warnings of the API server are complaints."""
        said = run([*self._command, *arguments], given)
        if "Warning:" in said.stderr:
            raise Refused(said.stderr)
        return said.stdout

    def get(self, kind: str, namespace: str = "", **labels: str) -> list[Manifest]:
        """All objects of a kind, with these labels (`_` as `-` in keys is not done: pass `**{"a.b/c": "d"}`)."""
        where = ["-n", namespace] if namespace else ["-A"]
        chosen = ["-l", ",".join(f"{key}={value}" for key, value in labels.items())] if labels else []
        return json.loads(self.run("get", kind, *where, *chosen, "-o", "json"))["items"]

    def one(self, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """That object, or None."""
        where = ["-n", namespace] if namespace else []
        said = self.run("get", kind, name, *where, "--ignore-not-found", "-o", "json")
        return json.loads(said) if said.strip() else None

    def apply(self, *manifests: Manifest, namespace: str = "") -> None:
        """Makes or changes them, as the server sees fit: unknown fields are refused."""
        if not manifests:
            return
        where = ["-n", namespace] if namespace else []
        text = yaml.safe_dump_all(manifests)
        self.run("apply", "--server-side", "--force-conflicts", "--validate=strict", *where, "-f", "-", given=text)

    def pods(self, namespace: str, **labels: str) -> list[Manifest]:
        """Pods that have not been told to stop."""
        return [pod for pod in self.get("pods", namespace, **labels) if "deletionTimestamp" not in pod["metadata"]]

    def events(self, namespace: str) -> str:
        """What controllers complain of, one line each."""
        found = [one for one in self.get("events", namespace) if one["type"] == "Warning"]
        return "\n".join(f"{one['involvedObject']['name']}: {one['reason']}: {one['message']}" for one in found)


def run(command: list[str], given: str | None = None, seconds: float = PATIENCE_SECONDS) -> subprocess.CompletedProcess:
    """Both outputs as text; raises Refused with the second where the program fails or takes too long."""
    try:
        said = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        raise Refused(f"{command[0]} {command[-1]} takes more than {seconds} s") from late
    if said.returncode:
        raise Refused(said.stderr or said.stdout)
    return said


def until(look: Callable[[], Any], right: Callable[[Any], bool], seconds: float = PATIENCE_SECONDS) -> Any:
    """What `look` sees as soon as it is `right`; raises AssertionError with the last look."""
    deadline = time.monotonic() + seconds
    while not right(seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s still: {seen}")
        time.sleep(0.3)
    return seen


def condition(thing: Manifest, kind: str) -> Manifest:
    """A condition of a status; {} where there is none."""
    return next((one for one in thing.get("status", {}).get("conditions", ()) if one["type"] == kind), {})


def is_ready(pod: Manifest) -> bool:
    """Whether a Service would send it calls."""
    return condition(pod, "Ready").get("status") == "True"


def waits_for(pod: Manifest) -> str:
    """Why the scheduler has no place for it; "" where it has one or has not looked yet."""
    seen = condition(pod, "PodScheduled")
    return seen.get("message", "") if seen.get("status") == "False" else ""


def nodes_of(pods: Iterable[Manifest]) -> list[str]:
    """Names of their nodes, "" for a pod without."""
    return sorted(pod["spec"].get("nodeName", "") for pod in pods)


def names(things: Iterable[Manifest]) -> set[str]:
    """Their names."""
    return {thing["metadata"]["name"] for thing in things}


@contextlib.contextmanager
def volume(cluster: Cluster, mode: str) -> Generator[str]:
    """A volume of 1 Ti as of a file server; also the name of a storage class that has this one alone."""
    name = f"sabueso-test-{secrets.token_hex(3)}"
    spec = {
        "capacity": {"storage": "1Ti"},
        "accessModes": [mode],
        "storageClassName": name,
        "persistentVolumeReclaimPolicy": "Retain",
        "nfs": {"server": "files.example.internal", "path": "/models"},
    }
    cluster.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
        },
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec},
    )
    try:
        yield name
    finally:
        # In use until its claim's namespace goes: nobody waits for that here.
        cluster.run("delete", f"persistentvolume/{name}", f"storageclass/{name}", "--wait=false")
