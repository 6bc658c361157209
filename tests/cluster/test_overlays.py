"""What is off by default, and the values files of k8s/values/: admitted with all their pods and custom resources."""

from pathlib import Path

import pytest
import yaml

from tests.chart.vllm_pools import merged
from tests.cluster.live import condition, names, until

SEED = "0" * 64
OVERLAYS = sorted(Path("k8s/values").glob("*/*.yaml"))
# What the files leave to whoever installs.
REQUIRED = {
    "sabueso": {
        "existingSecret": "sabueso",
        "tenants": {"existingConfigMap": "tenants"},
        "databases": {"existingSecret": "databases"},
    },
    "vllm": {"defaults": {"weights": {"existingClaim": "weights"}}},
}


def made_all_pods(thing):
    """Whether a Deployment or StatefulSet has found all of its pods admitted, wherever they are."""
    status = thing.get("status", {})
    seen = status.get("observedGeneration") == thing["metadata"]["generation"]
    return seen and status.get("replicas", 0) == thing["spec"]["replicas"] and not condition(thing, "ReplicaFailure")


def until_admitted(cluster, namespace):
    """Waits for the pods of everything that makes pods; none needs a place."""
    things = until(
        lambda: cluster.get("deployments,statefulsets", namespace),
        lambda found: all(made_all_pods(one) for one in found),
    )
    assert things
    return things


@pytest.mark.parametrize("file", OVERLAYS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_values_of_each_environment_are_admitted(cluster, release, file):
    chart = file.parent.name
    try_out = release()
    values = merged(REQUIRED[chart], yaml.safe_load(file.read_text()) or {})
    # Classes of priority are the cluster's; a pod that names one that is not there is refused.
    cluster.run("apply", "--server-side", "-f", "k8s/priority-classes.yaml")
    try_out.install(f"charts/{chart}", wait=False, **values)
    until_admitted(cluster, try_out.namespace)
    assert "forbidden" not in cluster.events(try_out.namespace)


@pytest.mark.parametrize("path", ["k8s/namespace.yaml", "k8s/priority-classes.yaml", "k8s/ray"])
def test_what_lies_beside_the_charts_is_accepted(cluster, namespace, path):
    said = cluster.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", namespace, "-f", path)
    assert "serverside-applied" in said


def test_monitors_rules_routes_dashboards_and_priorities_are_accepted(cluster, release, good):
    try_out = release()
    space = try_out.namespace
    optional = {
        "metrics": {"monitor": "service"},
        "alerts": {"enabled": True},
        "dashboards": {"enabled": True},
        "evaluation": {"alerts": {"enabled": True}},
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "public", "namespace": "gateways"}]},
        "priorityClasses": {"create": True},
    }
    try_out.install("charts/sabueso", **{**good, **optional})
    for kind in ("servicemonitors", "prometheusrules", "httproutes"):
        assert cluster.get(kind, space), kind
    assert cluster.get("configmaps", space, grafana_dashboard="1")
    assert {pod["spec"].get("priorityClassName") for pod in cluster.pods(space)} - {None}
    ingress = {"enabled": True, "tlsSecret": "certificate"}
    others = {"metrics": {"monitor": "pod"}, "httpRoute": {"enabled": False}, "ingress": ingress}
    try_out.upgrade("charts/sabueso", **{**good, **optional, **others})
    for kind in ("podmonitors", "ingresses"):
        assert cluster.get(kind, space), kind
    for kind in ("servicemonitors", "httproutes"):
        assert not cluster.get(kind, space), kind


def test_replicas_that_an_autoscaler_has_set_survive_an_upgrade(cluster, release, good):
    try_out = release()
    space = try_out.namespace
    scaled = {**good, "autoscaling": {"kind": "hpa"}}
    try_out.install("charts/sabueso", **scaled)
    targets = {one["spec"]["scaleTargetRef"]["name"] for one in cluster.get("horizontalpodautoscalers", space)}
    assert targets
    assert targets <= names(cluster.get("deployments", space))
    cluster.run("scale", "deployment", *sorted(targets), "--replicas=3", "-n", space)
    try_out.upgrade("charts/sabueso", **scaled, image={"tag": "next"})
    replicas = {one["metadata"]["name"]: one["spec"]["replicas"] for one in cluster.get("deployments", space)}
    assert {replicas[name] for name in targets} == {3}


def test_scaled_objects_are_accepted_in_place_of_autoscalers(cluster, release, good):
    try_out = release()
    try_out.install("charts/sabueso", **{**good, "autoscaling": {"kind": "keda"}})
    targets = {one["spec"]["scaleTargetRef"]["name"] for one in cluster.get("scaledobjects", try_out.namespace)}
    assert targets
    assert targets <= names(cluster.get("deployments", try_out.namespace))
    assert not cluster.get("horizontalpodautoscalers", try_out.namespace)


def test_a_pool_that_is_scaled_and_watched_is_accepted(cluster, release):
    try_out = release("model")
    values = {"autoscaling": {"enabled": True}, "weights": {"existingClaim": "weights"}}
    try_out.install("charts/vllm", wait=False, defaults=values, podMonitor={"enabled": True})
    until_admitted(cluster, try_out.namespace)
    assert cluster.get("scaledobjects", try_out.namespace)
    assert cluster.get("podmonitors", try_out.namespace)


def test_a_try_out_has_all_that_it_needs_inside_and_leaves_its_data(cluster, release):
    try_out = release()
    space = try_out.namespace
    values = yaml.safe_load(Path("charts/sabueso/values-tryout.yaml").read_text())
    try_out.install("charts/sabueso", **merged(values, {"tryout": {"seed": SEED}}))
    for thing in until_admitted(cluster, space):
        assert thing["status"].get("readyReplicas") == thing["spec"]["replicas"], thing["metadata"]["name"]
    made = names(cluster.get("secrets", space)) | names(cluster.get("configmaps", space))
    for pod in cluster.pods(space):
        assert wanted_by(pod) <= made, pod["metadata"]["name"]
    try_out.test()
    claims = names(cluster.get("persistentvolumeclaims", space))
    try_out.uninstall()
    assert len(claims) >= 3
    assert names(cluster.get("persistentvolumeclaims", space)) == claims


def wanted_by(pod):
    """Names of the Secrets and ConfigMaps without which a kubelet would not start this pod."""
    spec = pod["spec"]
    wanted = set()
    for volume in spec.get("volumes", ()):
        secret, config = volume.get("secret", {}), volume.get("configMap", {})
        wanted |= {source[key] for source, key in ((secret, "secretName"), (config, "name")) if key in source}
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        for variable in container.get("env", ()):
            source = variable.get("valueFrom", {})
            wanted |= {source[key]["name"] for key in ("secretKeyRef", "configMapKeyRef") if key in source}
    return wanted


def test_the_weekly_evaluation_runs_when_it_is_started_by_hand(cluster, release, good):
    try_out = release()
    space = try_out.namespace
    weekly = {
        "enabled": True,
        "sets": ["answers"],
        "goldenClaim": "golden",
        "tenant": "acme",
        "existingSecret": "weekly",
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    golden = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "golden"}, "spec": claim}
    cluster.apply(golden, namespace=space)
    # Helm would wait for a claim that nobody uses before the first run.
    try_out.install(
        "charts/sabueso", wait=False, **{**good, "evaluation": {"weekly": {**weekly, "existingSecret": "weekly"}}}
    )
    (job,) = cluster.get("cronjobs", space)
    cluster.run("create", "job", "now", f"--from=cronjob/{job['metadata']['name']}", "-n", space)
    until(lambda: cluster.one("job", "now", space), lambda job: condition(job, "Complete").get("status") == "True")
