"""A live cluster for the tests of this folder: `make test-cluster`. Without one only what starts it is tested.

SABUESO_TEST_CLUSTER is `own` (built, started, stopped) or the kubeconfig of a cluster that may be filled and emptied.
"""

import contextlib
import os
import secrets
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from local import cluster as control_plane
from local import cluster_definitions, cluster_programs, helm
from tests.chart.cluster_facts import GOOD
from tests.cluster.live import Cluster, Manifest, condition, until
from tests.cluster.releases import Release

_WANTED = os.environ.get("SABUESO_TEST_CLUSTER", "")
_WITHOUT = {"test_control_plane.py"}
collect_ignore = [
    path.name for path in Path(__file__).parent.glob("test_*.py") if not _WANTED and path.name not in _WITHOUT
]
HOME = Path(".sabueso/cluster-test")
# Nodes of an H100 pool and of ordinary machines, played by kwok.
NODES = Path("k8s/kwok")
PROFILES = ("enforce", "warn", "audit")


def _storage_class() -> Manifest:
    """What a claim gets that names none: volumes of the controller manager's own, for one node at a time."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/host-path",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets the first test start a cluster, and each wait for a machine that is busy with something else."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """With the custom resources' definitions, simulated nodes and, on a cluster of our own, a storage class."""
    if _WANTED == "own":
        with control_plane.running(HOME) as plane:
            live = Cluster(_kubectl(), plane.kubeconfig)
            live.apply(_storage_class())
            _furnish(live)
            yield live
    else:
        yield from _another(Path(_WANTED))


def _kubectl() -> str:
    program = helm.kubectl()
    if program is None:
        pytest.fail(helm.HOW)
    return program


def _another(kubeconfig: Path) -> Iterator[Cluster]:
    programs = cluster_programs.build()
    live = Cluster(_kubectl(), kubeconfig)
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "kwok.log").open("wb") as log:
        options = control_plane.kwok_options(kubeconfig)
        kwok = subprocess.Popen([str(programs["kwok"]), *options], stdout=log, stderr=log)
    try:
        _furnish(live)
        yield live
        live.run("delete", "--ignore-not-found", "-f", str(NODES))
    finally:
        kwok.terminate()
        kwok.wait(20)


def _furnish(live: Cluster) -> None:
    live.run("apply", "--server-side", "-f", str(cluster_definitions.fetch()))
    live.run("apply", "-f", str(NODES))
    until(
        lambda: live.get("nodes"), lambda nodes: all(condition(one, "Ready").get("status") == "True" for one in nodes)
    )
    until(
        lambda: live.get("customresourcedefinitions"),
        lambda found: all(condition(one, "Established").get("status") == "True" for one in found),
    )


@pytest.fixture(scope="session", params=[3, 4])
def helm_major(request: pytest.FixtureRequest) -> int:
    """Helm 3, then Helm 4."""
    if helm.find(request.param) is None:
        pytest.fail(helm.HOW)
    return request.param


@contextlib.contextmanager
def a_namespace(cluster: Cluster) -> Generator[str]:
    """A new one that admits only what keeps to Pod Security's `restricted`; gone after the block."""
    name = f"sabueso-test-{secrets.token_hex(3)}"
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in PROFILES}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    try:
        until(lambda: cluster.one("serviceaccount", "default", name), bool)
        yield name
    finally:
        # Waits: the GPUs that its pods hold are wanted by the next test.
        cluster.run("delete", "namespace", name)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    with a_namespace(cluster) as name:
        yield name


def _release(cluster: Cluster, namespace: str, name: str, major: int) -> Release:
    program = helm.find(major)
    if program is None:
        pytest.fail(helm.HOW)
    return Release(cluster, program, name, namespace)


@pytest.fixture
def release(cluster: Cluster, namespace: str) -> Callable[..., Release]:
    """A release called `try` (or else), by Helm 4 (or 3), not yet installed."""
    return lambda name="try", major=4: _release(cluster, namespace, name, major)


@pytest.fixture(scope="session")
def installed(cluster: Cluster, good: dict[str, Any]) -> Iterator[Release]:
    """charts/sabueso with the least that it wants to know, for tests that only look."""
    with a_namespace(cluster) as name:
        made = _release(cluster, name, "try", 4)
        made.install("charts/sabueso", **good)
        yield made


@pytest.fixture(scope="session")
def good() -> dict[str, Any]:
    """The least that charts/sabueso wants to know."""
    return GOOD
