"""`sabueso doctor --kube`: what it finds in what a cluster says of itself."""

import copy
import json
import shlex

import pytest

from services.cli.doctor import cluster
from services.cli.doctor.kubectl import Kubectl, NoCluster

GPU = "nvidia.com/gpu"


def pod(name="sabueso-gateway-1", **changed):
    container = {
        "name": "main",
        "env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "sabueso", "key": "identity-secret"}}}],
    }
    made = {
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/part-of": "sabueso", "app.kubernetes.io/version": "0.1.0"},
        },
        "spec": {"containers": [container], "volumes": [{"name": "d", "secret": {"secretName": "databases"}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    for path, value in changed.items():
        inner = made
        *parents, last = path.split("__")
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    return made


def engine(count=4, **changed):
    made = pod("vllm-0", metadata__labels={"app": "vllm"}, **changed)
    made["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(count)}}
    return made


def stuck(**status):
    return pod(status__conditions=[{"type": "Ready", "status": "False"}], status__containerStatuses=[status])


def ended(code, reason="Error"):
    return stuck(restartCount=3, state={}, lastState={"terminated": {"exitCode": code, "reason": reason}})


def waits(reason):
    return stuck(state={"waiting": {"reason": reason, "message": "…"}})


def node(gpus=8, product="NVIDIA-H100-80GB-HBM3", taint=True):
    return {
        "metadata": {"name": "h100-1", "labels": {"nvidia.com/gpu.product": product} if product else {}},
        "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}] if taint else []},
        "status": {"allocatable": {GPU: str(gpus)} if gpus else {}},
    }


def claim(phase="Bound"):
    return {"metadata": {"name": "spool"}, "spec": {"storageClassName": "fast"}, "status": {"phase": phase}}


HEALTHY = {
    "pods": [pod(), engine()],
    "secrets": {"sabueso": ["identity-secret"], "databases": ["acme.dsn"]},
    "persistentvolumeclaims": [claim()],
    "nodes": [node()],
}
UNPLACED = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: 3 Insufficient nvidia.com/gpu."}
FAULTS = [
    ("pods", [], "pods", "error", "there is none"),
    ("pods", [ended(78)], "pods", "error", "a setting is wrong"),
    ("pods", [ended(69)], "pods", "error", "port is taken"),
    ("pods", [ended(137, "OOMKilled")], "pods", "error", "was killed"),
    ("pods", [ended(3)], "pods", "error", "ended with 3"),
    ("pods", [waits("ImagePullBackOff")], "pods", "error", "ImagePullBackOff"),
    ("pods", [waits("CreateContainerConfigError")], "pods", "error", "CreateContainerConfigError"),
    ("pods", [waits("ContainerCreating")], "pods", "error", "ContainerCreating"),
    ("pods", [stuck(state={"running": {}})], "pods", "warning", "is not ready"),
    ("pods", [pod(status__conditions=[UNPLACED])], "pods", "error", "has no node"),
    (
        "pods",
        [pod(), pod("b", metadata__labels={"app.kubernetes.io/part-of": "sabueso", "app.kubernetes.io/version": "2"})],
        "version",
        "warning",
        "several versions",
    ),
    ("pods", [pod(spec__imagePullSecrets=[{"name": "pull"}])], "secrets", "error", "`pull` is missing"),
    ("secrets", {"databases": []}, "secrets", "error", "`sabueso` is missing"),
    ("secrets", {"sabueso": ["other"], "databases": []}, "secrets", "error", "`sabueso` lacks `identity-secret`"),
    ("secrets", None, "secrets", "skipped", "Forbidden"),
    ("nodes", None, "gpu", "skipped", "Forbidden"),
    ("persistentvolumeclaims", [claim("Pending")], "volumes", "error", "spool is Pending"),
    ("nodes", [node(0)], "gpu", "error", "want 4 GPUs, the nodes offer 0"),
    ("nodes", [node(2)], "gpu", "error", "want 4 GPUs, the nodes offer 2"),
    ("nodes", [node(product="")], "gpu", "warning", "which GPU"),
    ("nodes", [node(taint=False)], "gpu", "warning", "no taint"),
]


@pytest.fixture
def asked(tmp_path):
    """A kubectl that prints what the cluster would say; what is None is forbidden."""

    def make(**changed):
        for kind, told in (copy.deepcopy(HEALTHY) | changed).items():
            if told is None:
                continue
            lines = "".join(f"{name} {' '.join(keys)}\n" for name, keys in told.items()) if kind == "secrets" else ""
            (tmp_path / kind).write_text(lines or json.dumps({"items": told if kind != "secrets" else []}))
        program = tmp_path / "kubectl"
        program.write_text(
            f"#!/bin/sh\ncd {shlex.quote(str(tmp_path))}\nprintf '%s\\n' \"$*\" >> words\n"
            'while [ "$1" != get ]; do shift; done\n'
            '[ -f "$2" ] || { echo "Error from server (Forbidden): $2 is forbidden" >&2; exit 1; }\nexec cat "$2"\n'
        )
        program.chmod(0o755)
        return Kubectl("prod", "rag", program=str(program))

    return make


def test_a_healthy_release_has_no_finding(asked):
    found = list(cluster.findings(asked()))
    assert {one.check for one in found} == {"pods", "secrets", "volumes", "gpu"}
    assert {one.status for one in found} == {"ok"}, found


@pytest.mark.parametrize(("kind", "told", "check", "status", "words"), FAULTS, ids=[f"{f[2]}: {f[4]}" for f in FAULTS])
def test_a_fault_of_the_cluster_is_found(asked, kind, told, check, status, words):
    found = [one for one in cluster.findings(asked(**{kind: told})) if words in one.what]
    assert [(one.check, one.status) for one in found] == [(check, status)]


def test_context_and_namespace_are_those_that_were_said_and_no_secret_is_read(asked, tmp_path):
    list(cluster.findings(asked()))
    lines = (tmp_path / "words").read_text().splitlines()
    assert all(line.startswith("--context prod --namespace rag --request-timeout=") for line in lines)
    [secrets] = [line for line in lines if " secrets " in line]
    assert "{{$key}}" in secrets
    assert "{{$value}}" not in secrets
    assert "json" not in secrets


def test_pods_that_have_done_their_work_are_left_out(asked):
    migrated = pod("migrate-1", status__phase="Succeeded", status__conditions=[{"type": "Ready", "status": "False"}])
    found = list(cluster.findings(asked(pods=[pod(), migrated])))
    assert [one.what for one in found if one.check == "pods"] == ["1 of 1 are ready"]


def test_a_namespace_without_gpus_needs_none(asked):
    found = list(cluster.findings(asked(pods=[pod()], nodes=[])))
    assert [one.status for one in found if one.check == "gpu"] == ["skipped"]


def test_an_optional_secret_may_be_missing():
    key = {"name": "later", "key": "k", "optional": True}
    one = pod(spec__volumes=[{"secret": {"secretName": "maybe", "optional": True}}])
    one["spec"]["containers"][0]["env"] = [{"name": "K", "valueFrom": {"secretKeyRef": key}}]
    assert [found.status for found in cluster.secrets([one], {})] == ["ok"]


def test_a_projected_volume_and_its_items_are_looked_at():
    items = {"secret": {"name": "keys", "items": [{"key": "a"}, {"key": "b"}]}}
    one = pod(spec__volumes=[{"projected": {"sources": [items]}}], spec__containers=[])
    found = [f.what for f in cluster.secrets([one], {"keys": {"a"}})]
    assert found == ["`keys` lacks `b`"]


@pytest.mark.parametrize("program", ["/nowhere/kubectl", "false"])
def test_without_a_cluster_there_is_one_finding(program):
    [found] = cluster.findings(Kubectl(program=program))
    assert found.status == "error"
    assert found.why


def test_an_answer_that_is_no_json_is_told(asked, tmp_path):
    kubectl = asked()
    (tmp_path / "pods").write_text("Warning")
    with pytest.raises(NoCluster, match="no JSON"):
        kubectl.all("pods")
