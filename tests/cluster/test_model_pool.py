"""charts/vllm among simulated nodes: where its pods go, what a full pool does, what happens to the others meanwhile."""

import pytest

from tests.cluster.live import is_ready, names, nodes_of, until, volume, waits_for

CHART = "charts/vllm"
PRODUCT = "nvidia.com/gpu.product"
SXM = "NVIDIA-H100-80GB-HBM3"


def pool(**settings):
    """Values of a release whose pool `large` has these settings."""
    return {"defaults": {"weights": {"existingClaim": "weights"}, **settings}}


@pytest.fixture
def weights(cluster, namespace):
    """A claim with a model's files that several nodes may read."""
    with volume(cluster, "ReadWriteMany") as name:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "weights"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": name,
                "volumeName": name,
                "resources": {"requests": {"storage": "300Gi"}},
            },
        }
        cluster.apply(claim, namespace=namespace)
        yield "weights"


@pytest.fixture
def vllm(release, weights):
    """A release of charts/vllm that has its weights, not yet installed."""
    return release("model")


def sxm_nodes(cluster):
    """Whole H100 SXM by node. Feature discovery names cut and shared ones by the same product in some modes."""
    found = {}
    for node in cluster.get("nodes", **{PRODUCT: SXM, "nvidia.com/gpu.sharing-strategy": "none"}):
        if gpus := int(node["status"]["allocatable"]["nvidia.com/gpu"]):
            found[node["metadata"]["name"]] = gpus
    return found


def slots(cluster, gpus):
    """How many pods of so many GPUs those nodes hold."""
    return sum(there // gpus for there in sxm_nodes(cluster).values())


def is_loading(pod):
    """Whether it runs and is not ready."""
    return pod["status"]["phase"] == "Running" and not is_ready(pod)


def test_there_are_nodes_that_must_be_refused(cluster):
    """Or else the tests of this file would prove nothing."""
    nodes = [node["metadata"]["labels"] for node in cluster.get("nodes")]
    assert len({labels.get(PRODUCT) for labels in nodes}) >= 5
    same = [labels for labels in nodes if labels.get(PRODUCT) == SXM]
    assert "mixed" in {labels["nvidia.com/mig.strategy"] for labels in same}
    assert "mps" in {labels["nvidia.com/gpu.sharing-strategy"] for labels in same}
    assert slots(cluster, 4) >= 2


def test_replicas_fill_the_sxm_nodes_and_one_more_waits_without_harm_to_the_others(cluster, vllm):
    full = slots(cluster, 4)
    vllm.install(CHART, **pool(replicas=full))
    pods = cluster.pods(vllm.namespace)
    assert len(pods) == full
    assert set(nodes_of(pods)) == set(sxm_nodes(cluster))
    assert {pod["status"]["qosClass"] for pod in pods} == {"Guaranteed"}
    before = names(pods)

    vllm.upgrade(CHART, wait=False, **pool(replicas=full + 1))
    waiting = until(
        lambda: [pod for pod in cluster.pods(vllm.namespace) if waits_for(pod)], lambda waiting: len(waiting) == 1
    )
    assert "Insufficient nvidia.com/gpu" in waits_for(waiting[0])
    ready = [pod for pod in cluster.pods(vllm.namespace) if is_ready(pod)]
    assert names(ready) == before


def test_a_full_pool_is_rolled_to_another_version(cluster, vllm):
    """With a surge the new pod would wait for GPUs that only its own success would free."""
    full = slots(cluster, 4)
    vllm.install(CHART, **pool(replicas=full))
    before = names(cluster.pods(vllm.namespace))
    vllm.upgrade(CHART, **pool(replicas=full), image={"tag": "next"})
    pods = until(
        lambda: cluster.pods(vllm.namespace), lambda pods: len(pods) == full and all(is_ready(pod) for pod in pods)
    )
    assert not names(pods) & before
    assert {one["image"].rpartition(":")[2] for pod in pods for one in pod["spec"]["containers"]} == {"next"}


def test_a_version_that_never_becomes_ready_costs_a_full_pool_one_replica_at_most(cluster, vllm):
    full = slots(cluster, 4)
    vllm.install(CHART, **pool(replicas=full))
    vllm.upgrade(CHART, wait=False, **pool(replicas=full), image={"tag": "1-broken"})
    until(
        lambda: [
            pod for pod in cluster.pods(vllm.namespace) if pod["status"]["phase"] == "Running" and not is_ready(pod)
        ],
        bool,
    )
    assert len([pod for pod in cluster.pods(vllm.namespace) if is_ready(pod)]) >= full - 1
    vllm.rollback(1)
    assert all(is_ready(pod) for pod in cluster.pods(vllm.namespace))


def test_a_pool_of_two_gpus_a_replica_takes_half_the_room(cluster, vllm):
    full = slots(cluster, 2)
    assert full == 2 * slots(cluster, 4)
    vllm.install(CHART, **pool(gpus=2, replicas=3))
    pods = cluster.pods(vllm.namespace)
    assert set(nodes_of(pods)) <= set(sxm_nodes(cluster))
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
        assert "--tensor-parallel-size=2" in container["args"]


def test_a_quota_of_gpus_refuses_a_second_replica_and_spares_the_first(cluster, vllm):
    hard = {"requests.nvidia.com/gpu": "4"}
    team = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}}
    cluster.apply(team, namespace=vllm.namespace)
    vllm.install(CHART, **pool())
    (first,) = cluster.pods(vllm.namespace)
    vllm.upgrade(CHART, wait=False, **pool(replicas=2))
    until(lambda: cluster.events(vllm.namespace), lambda events: "exceeded quota: team" in events)
    (still,) = cluster.pods(vllm.namespace)
    assert is_ready(still)
    assert still["metadata"]["uid"] == first["metadata"]["uid"]


def test_a_node_is_drained_while_another_replica_answers(cluster, vllm):
    vllm.install(CHART, **pool(replicas=2))
    budgets = until(
        lambda: cluster.get("poddisruptionbudgets", vllm.namespace),
        lambda found: all(one.get("status", {}).get("expectedPods") for one in found),
    )
    assert [one["status"]["disruptionsAllowed"] for one in budgets] == [1]
    (node, *_) = nodes_of(cluster.pods(vllm.namespace))
    try:
        cluster.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
        left = cluster.pods(vllm.namespace)
        assert node not in nodes_of(left)
        assert any(is_ready(pod) for pod in left)
    finally:
        cluster.run("uncordon", node)


def test_pods_of_sabueso_rather_wait_than_go_to_a_gpu_node(cluster, release, good):
    ordinary = [
        node["metadata"]["name"]
        for node in cluster.get("nodes")
        if "nvidia.com/gpu" not in node["status"]["allocatable"]
    ]
    try_out = release()
    cluster.run("cordon", *ordinary)
    try:
        try_out.install("charts/sabueso", wait=False, **good)
        wanted = sum(one["spec"]["replicas"] for one in cluster.get("deployments", try_out.namespace))
        pods = until(
            lambda: cluster.pods(try_out.namespace),
            lambda pods: len(pods) >= wanted and all(waits_for(pod) for pod in pods),
        )
        assert set(nodes_of(pods)) == {""}
    finally:
        cluster.run("uncordon", *ordinary)


def test_the_tests_of_the_chart_are_admitted_and_run(vllm):
    vllm.install(CHART, **pool())
    assert "Succeeded" in vllm.test()


def test_weights_are_fetched_into_a_claim_that_outlives_the_release(cluster, release):
    try_out = release("model")
    with volume(cluster, "ReadWriteMany") as name:
        prefetch = {"enabled": True, "revision": "0" * 40, "checksums": {"config.json": "0" * 64}}
        claim = {"size": "300Gi", "storageClassName": name, "accessMode": "ReadWriteMany"}
        weights = {"from": "claim", "claim": claim, "prefetch": prefetch}
        # Of this pool alone: what is fetched by default is fetched for pools too that are not enabled yet.
        try_out.install(CHART, pools={"large": {"weights": weights}})
        jobs = until(
            lambda: cluster.get("jobs", try_out.namespace),
            lambda jobs: all(one["status"].get("succeeded") for one in jobs),
        )
        assert jobs
        try_out.uninstall()
        (kept,) = cluster.get("persistentvolumeclaims", try_out.namespace)
        assert kept["status"]["phase"] == "Bound"
        assert "deletionTimestamp" not in kept["metadata"]
