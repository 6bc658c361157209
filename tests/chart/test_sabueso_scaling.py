"""How many pods of charts/sabueso there are, where they go, how they are replaced, and who watches them."""

import json

import pytest

from tests.chart.cluster_facts import (
    GOOD,
    containers,
    labels_of,
    of_kind,
    pods,
    render,
    selects,
)
from tests.chart.sabueso_values import rendered


@pytest.fixture(scope="module", params=["least", "taken in", "built in"])
def release(request):
    return rendered(request.param)


def test_what_is_scaled_says_no_number_of_replicas(release):
    scaled = {one["spec"]["scaleTargetRef"]["name"] for one in of_kind(release, "HorizontalPodAutoscaler").values()}
    scaled |= {one["spec"]["scaleTargetRef"]["name"] for one in of_kind(release, "ScaledObject").values()}
    for name, deployment in of_kind(release, "Deployment").items():
        assert ("replicas" in deployment["spec"]) == (name not in scaled)
    assert scaled <= set(of_kind(release, "Deployment"))


def test_every_disruption_budget_lets_a_pod_go(release):
    least = {name: one["spec"].get("replicas") for name, one in of_kind(release, "Deployment").items()}
    for kind, field in (("HorizontalPodAutoscaler", "minReplicas"), ("ScaledObject", "minReplicaCount")):
        for one in of_kind(release, kind).values():
            least[one["spec"]["scaleTargetRef"]["name"]] = one["spec"][field]
    budgets = of_kind(release, "PodDisruptionBudget")
    assert set(budgets) == {name for name, count in least.items() if count >= 2}
    for budget in budgets.values():
        assert budget["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budget["spec"]


def test_a_rollout_takes_no_replica_away_before_another_serves(release):
    for name, deployment in of_kind(release, "Deployment").items():
        claims = [v for v in deployment["spec"]["template"]["spec"]["volumes"] if v["name"] == "data"]
        strategy = deployment["spec"]["strategy"]
        if claims and strategy.get("type") == "Recreate":
            continue
        assert strategy["rollingUpdate"]["maxUnavailable"] == 0, name


def test_pods_spread_over_zones_and_nodes_but_need_neither(release):
    for deployment in of_kind(release, "Deployment").values():
        found = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert [one["topologyKey"] for one in found] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        for one in found:
            assert one["whenUnsatisfiable"] == "ScheduleAnyway"
            # Each ReplicaSet by itself: old pods that go away do not count.
            assert one["matchLabelKeys"] == ["pod-template-hash"]
            assert selects(one["labelSelector"], labels_of(deployment["spec"]["template"]))


def test_a_volume_that_one_pod_holds_is_let_go_before_the_next_takes_it():
    (strategy,) = {json.dumps(of_kind(rendered("least"), "Deployment")["try-ingestion"]["spec"]["strategy"])}
    assert strategy == '{"type": "Recreate"}'
    assert "rollingUpdate" in of_kind(rendered("taken in"), "Deployment")["try-ingestion"]["spec"]["strategy"]


@pytest.mark.parametrize("kind", ["hpa", "keda"])
def test_the_gateway_shares_limits_among_as_many_as_there_may_be(kind):
    manifests = render(**GOOD, autoscaling={"kind": kind})
    (container,) = of_kind(manifests, "Deployment")["try-gateway"]["spec"]["template"]["spec"]["containers"]
    assert {one["name"]: one.get("value") for one in container["env"]}["SABUESO_REPLICA_COUNT"] == "10"


def test_a_gateway_that_is_scaled_to_nothing_can_be_scaled_up_again():
    """`kubectl scale` changes the number and not the variable, which must be one that the gateway takes."""
    from services.gateway.config import Settings as Gateway

    manifests = render(**GOOD, services={"gateway": {"replicas": 0}})
    assert "try-gateway" not in of_kind(manifests, "PodDisruptionBudget")
    (container,) = of_kind(manifests, "Deployment")["try-gateway"]["spec"]["template"]["spec"]["containers"]
    (count,) = (one["value"] for one in container["env"] if one["name"] == "SABUESO_REPLICA_COUNT")
    assert Gateway.model_fields["replica_count"].default <= int(count)


def test_scaling_reaches_its_target_before_queues_are_full():
    """A target that no replica can reach would never scale."""
    from services.embedding.config import Settings as Embedding
    from services.gateway.config import Settings as Gateway

    hpas = of_kind(render(**GOOD, autoscaling={"kind": "hpa"}), "HorizontalPodAutoscaler")
    targets = {
        metric["pods"]["metric"]["name"]: int(metric["pods"]["target"]["averageValue"])
        for one in hpas.values()
        for metric in one["spec"]["metrics"]
        if metric["type"] == "Pods"
    }
    most = {
        "sabueso_embedding_queue_tokens": Embedding.model_fields["max_waiting_tokens"].default,
        "sabueso_gateway_active_requests": Gateway.model_fields["max_runs"].default,
    }
    assert set(targets) == set(most)
    assert all(target < most[name] for name, target in targets.items())


def test_keda_asks_prometheus_for_the_pods_of_this_release():
    scaled = of_kind(render(**GOOD, autoscaling={"kind": "keda"}), "ScaledObject")["try-embedding"]["spec"]
    cpu, queue = scaled["triggers"]
    assert cpu["metadata"] == {"value": "70"}
    assert (
        queue["metadata"]["query"]
        == 'sum(sabueso_embedding_queue_tokens{namespace="default", pod=~"try-embedding-[^-]+-[^-]+"})'
    )
    assert queue["metadata"]["threshold"] == "8192"


@pytest.mark.parametrize("kind", ["pod", "service"])
def test_monitors_find_every_service_once(kind):
    manifests = render(**GOOD, metrics={"monitor": kind, "labels": {"release": "prometheus"}})
    (monitor,) = (one for one in manifests if one["kind"] in ("PodMonitor", "ServiceMonitor"))
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    endpoint = monitor["spec"]["podMetricsEndpoints" if kind == "pod" else "endpoints"][0]
    found = set()
    for owner, pod in pods(manifests):
        if kind == "pod" and selects(monitor["spec"]["selector"], labels_of(pod)):
            ports = [port["name"] for port in containers(pod)[0].get("ports", ())]
            found |= {owner["metadata"]["name"]} if endpoint["port"] in ports else set()
    for name, service in of_kind(manifests, "Service").items():
        if kind == "service" and selects(monitor["spec"]["selector"], labels_of(service)):
            ports = [port["name"] for port in service["spec"]["ports"]]
            found |= {name} if endpoint["port"] in ports else set()
    assert found == set(of_kind(manifests, "Deployment"))
