"""charts/sabueso on a live API server, by Helm 3 and 4: install, test, upgrade, roll back, uninstall."""

import pytest

from tests.cluster.live import Refused, condition, is_ready, names, nodes_of, until

CHART = "charts/sabueso"


def tags(cluster, namespace):
    """Of the images of all pods, also of those that are ending."""
    images = (one["image"] for pod in cluster.pods(namespace) for one in pod["spec"]["containers"])
    return {image.rpartition(":")[2] for image in images}


def test_a_release_is_installed_tested_upgraded_rolled_back_and_uninstalled(cluster, release, helm_major, good):
    try_out = release(major=helm_major)
    space = try_out.namespace
    try_out.install(CHART, **good)
    deployments = cluster.get("deployments", space)
    assert all(condition(one, "Available")["status"] == "True" for one in deployments)
    assert all(is_ready(pod) for pod in cluster.pods(space))

    try_out.test()

    claims = names(cluster.get("persistentvolumeclaims", space))
    try_out.upgrade(CHART, **good, image={"tag": "next"})
    until(lambda: tags(cluster, space), lambda seen: seen == {"next"})
    try_out.rollback(1)
    until(lambda: tags(cluster, space), lambda seen: "next" not in seen)
    assert try_out.status()["version"] == 3

    try_out.uninstall()
    assert until(lambda: cluster.pods(space), lambda pods: not pods) == []
    left = cluster.run(
        "get", "deployments,services,networkpolicies,poddisruptionbudgets,jobs", "-n", space, "-o", "name"
    )
    assert set(left.split()) <= {"service/kubernetes"}
    # What people have put in survives who removes the release.
    assert names(cluster.get("persistentvolumeclaims", space)) == claims


def test_a_release_is_installed_again_beside_the_data_of_the_former_one(cluster, release, good):
    try_out = release()
    try_out.install(CHART, **good)
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.get("pvc", try_out.namespace)}
    try_out.uninstall()
    try_out.install(CHART, **good)
    after = {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.get("pvc", try_out.namespace)}
    assert before
    assert before == after


def test_two_releases_live_in_one_namespace(cluster, release, good):
    first, second = release("first"), release("second")
    first.install(CHART, **good)
    second.install(CHART, **good)
    first.uninstall()
    assert all(is_ready(pod) for pod in cluster.pods(second.namespace))
    assert cluster.pods(second.namespace)


def test_a_version_that_never_becomes_ready_takes_no_replica_away(cluster, release, good):
    try_out = release()
    try_out.install(CHART, **good)
    wanted = {one["metadata"]["name"]: one["spec"]["replicas"] for one in cluster.get("deployments", try_out.namespace)}
    several = {name: count for name, count in wanted.items() if count > 1}
    try_out.upgrade(CHART, wait=False, **good, image={"tag": "1-broken"})
    until(
        lambda: [pod for pod in cluster.pods(try_out.namespace) if not is_ready(pod)],
        lambda waiting: len(waiting) >= len(several),
    )
    for one in cluster.get("deployments", try_out.namespace):
        name = one["metadata"]["name"]
        if name in several:
            assert one["status"].get("availableReplicas", 0) >= several[name], name
    try_out.rollback(1)
    assert all(is_ready(pod) for pod in cluster.pods(try_out.namespace))


def test_every_pod_runs_on_a_machine_without_gpus(cluster, installed):
    ordinary = {
        node["metadata"]["name"]
        for node in cluster.get("nodes")
        if "nvidia.com/gpu" not in node["status"]["allocatable"] and not node["spec"].get("taints")
    }
    assert set(nodes_of(cluster.pods(installed.namespace))) <= ordinary


def test_each_service_finds_all_of_its_replicas(cluster, installed):
    pods = cluster.pods(installed.namespace)
    for service in cluster.get("services", installed.namespace):
        name, spec = service["metadata"]["name"], service["spec"]
        chosen = spec["selector"].items()
        expected = {pod["status"]["podIP"] for pod in pods if chosen <= pod["metadata"]["labels"].items()}
        label = {"kubernetes.io/service-name": name}
        slices = until(
            lambda label=label: cluster.get("endpointslices", installed.namespace, **label),
            lambda slices, expected=expected: ready_addresses(slices) == expected,
        )
        assert expected, name
        assert {port["name"] for part in slices for port in part["ports"]} == {port["name"] for port in spec["ports"]}


def ready_addresses(slices):
    """Where a Service sends calls."""
    ends = [end for part in slices for end in part["endpoints"] or () if end["conditions"]["ready"]]
    return {address for end in ends for address in end["addresses"]}


def test_admission_is_as_strict_as_it_should_be(cluster, namespace):
    """Or else the tests of this folder would prove nothing."""
    container = {"name": "main", "image": "registry.example.internal/any:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": {"containers": [container]}}
    with pytest.raises(Refused, match=r"violates PodSecurity \"restricted"):
        cluster.apply(pod, namespace=namespace)
