"""Where pods of both charts go among the simulated nodes: models on whole SXM GPUs, everything else on no GPU node."""

import pytest

from tests.chart.cluster_facts import check_schemas, of_kind, pods
from tests.chart.scheduling import Cluster, may_go, nodes_of, requests_of
from tests.chart.vllm_pools import KITCHEN_SINK, WEIGHTS, merged, pool_pod, profile, rendered, with_large

NODES = nodes_of("k8s/kwok/nodes.yaml")
SXM = ["h100-sxm-1", "h100-sxm-2"]
GPU_NODES = {name for name, node in NODES.items() if node.get("spec", {}).get("taints")}


def homes(pod):
    """Nodes that would take the pod, were they empty."""
    return [name for name in NODES if Cluster([NODES[name]]).place(pod)]


@pytest.fixture(scope="module")
def large():
    return pool_pod(rendered(**WEIGHTS))


def test_the_nodes_are_ones_that_a_cluster_takes():
    check_schemas(list(NODES.values()), ("1.37",))
    for name, node in NODES.items():
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
        assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
        assert node["status"]["allocatable"] == node["status"]["capacity"]


@pytest.mark.parametrize("values", [WEIGHTS, profile("prod-h100"), profile("tp2"), profile("airgap")])
def test_models_go_to_whole_sxm_gpus_only(values):
    for deployment in of_kind(rendered(**values), "Deployment").values():
        assert homes(deployment["spec"]["template"]) == SXM


def test_a_small_model_does_not_go_to_a_slice_either():
    values = merged(WEIGHTS, {"pools": {"small": {"enabled": True}}})
    assert homes(pool_pod(rendered(**values), "small")) == SXM


def test_on_gke_models_go_by_its_own_label():
    assert homes(pool_pod(rendered(**profile("gke")))) == ["gke-h100-1"]


def test_cut_and_shared_gpus_are_kept_off_by_more_than_their_product(large):
    # The product's name of these two is that of a whole GPU.
    assert NODES["h100-shared-2"]["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert not may_go(large, NODES["h100-shared-2"])
    assert may_go(large, NODES["h100-mig-mixed-1"])
    assert "h100-mig-mixed-1" not in homes(large)


def test_without_the_toleration_no_gpu_node_is_left():
    assert homes(pool_pod(rendered(**with_large(tolerations=[])))) == []


def test_pods_without_gpus_never_go_to_gpu_nodes(default_manifests):
    own = [pod for owner, pod in pods(rendered(**KITCHEN_SINK)) if owner["kind"] != "Deployment"]
    others = [pod for _, pod in pods(default_manifests)]
    assert len(own) > 2
    assert len(others) > 5
    for pod in [*own, *others]:
        found = homes(pod)
        assert found
        assert not GPU_NODES & set(found)


def test_replicas_fill_the_pool_and_the_next_one_waits(large):
    cluster = Cluster(NODES.values())
    assert [cluster.place(large) for _ in range(4)] == [SXM[0], SXM[0], SXM[1], SXM[1]]
    assert {cluster.free(name, "nvidia.com/gpu") for name in SXM} == {0}
    assert cluster.place(large) is None


def test_twice_as_many_replicas_of_two_gpus_fill_it():
    pod = pool_pod(rendered(**profile("tp2")))
    cluster = Cluster(NODES.values())
    assert sum(cluster.place(pod) is not None for _ in range(20)) == 8


def test_a_rollout_on_a_full_pool_ends(large):
    cluster = Cluster(NODES.values())
    old = [cluster.place(large) for _ in range(4)]
    # Surge 0: one ends, then one begins, until all are new.
    for name in old:
        assert cluster.place(large) is None
        cluster.remove_one(name)
        assert cluster.place(large) == name


def test_production_fits_two_nodes_with_all_replicas():
    cluster = Cluster(NODES[name] for name in SXM)
    manifests = rendered(**profile("prod-h100"))
    scaling = of_kind(manifests, "ScaledObject")["try-large"]["spec"]
    small = of_kind(manifests, "Deployment")["try-small"]["spec"]
    for _ in range(scaling["minReplicaCount"]):
        assert cluster.place(pool_pod(manifests))
    for _ in range(small["replicas"]):
        assert cluster.place(pool_pod(manifests, "small"))


def test_what_a_pod_asks_for_counts_its_init_containers_by_the_largest(default_manifests):
    plain = requests_of(pool_pod(rendered(**WEIGHTS)))
    with_init = requests_of(pool_pod(rendered(**profile("prefetch"))))
    assert with_init == plain
    assert plain["nvidia.com/gpu"] == 4
