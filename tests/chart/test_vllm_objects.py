"""charts/vllm: what stands around the pods of a pool, and whether it fits together."""

import re
from pathlib import Path

import pytest
import yaml

from services.gateway.pools.configuration import PoolConfiguration
from tests.chart.cluster_facts import GOOD, allowed, images, labels_of, of_kind, pods, render, selects, strings
from tests.chart.vllm_pools import (
    KITCHEN_SINK,
    PREFETCH,
    WEIGHTS,
    flag,
    merged,
    pool_pod,
    profile,
    rendered,
    server,
    variables,
    with_large,
)

GATEWAY = {"app.kubernetes.io/part-of": "sabueso", "app.kubernetes.io/name": "gateway"}
# Selectors cannot be changed: an upgrade from a release with others is refused by the cluster.
SELECTORS = {
    "app.kubernetes.io/name": "vllm",
    "app.kubernetes.io/instance": "try",
    "app.kubernetes.io/component": "large",
}


@pytest.fixture(scope="module")
def default():
    return rendered(**WEIGHTS)


@pytest.fixture(scope="module")
def everything():
    return rendered(**KITCHEN_SINK)


@pytest.fixture(scope="module")
def scaled():
    return rendered(**with_large(autoscaling={"enabled": True, "minReplicas": 2, "maxReplicas": 4}))


# ---- pools and services


def test_each_enabled_pool_is_a_deployment_with_both_services(everything):
    names = {"try-large", "try-small", "try-judge"}
    assert set(of_kind(everything, "Deployment")) == names
    services = of_kind(everything, "Service")
    assert set(services) == names | {f"{name}-headless" for name in names}
    for name in names:
        assert services[f"{name}-headless"]["spec"]["clusterIP"] == "None"
        assert "clusterIP" not in services[name]["spec"]


def test_selectors_are_those_of_the_last_release(default):
    assert of_kind(default, "Deployment")["try-large"]["spec"]["selector"] == {"matchLabels": SELECTORS}


def test_what_selects_pods_finds_those_of_its_pool_only(everything):
    made = {owner["metadata"]["name"]: labels_of(pod) for owner, pod in pods(everything)}
    for service in of_kind(everything, "Service").values():
        wanted = service["metadata"]["name"].removesuffix("-headless")
        assert [n for n, labels in made.items() if selects({"matchLabels": service["spec"]["selector"]}, labels)] == [
            wanted
        ]
    for budget in of_kind(everything, "PodDisruptionBudget").values():
        found = [name for name, labels in made.items() if selects(budget["spec"]["selector"], labels)]
        assert found == [budget["metadata"]["name"]]


def test_every_image_comes_from_the_registry_of_an_air_gap(everything):
    assert {image.split("/")[0] for image in images(everything)} == {"reg.local:5000"}
    assert all(image.startswith("registry.example.internal/") for image in images(rendered(**profile("airgap"))))


def test_nothing_but_the_test_is_a_hook_and_nothing_waits_for_one(everything):
    hooks = [one for one in everything if "helm.sh/hook" in one["metadata"].get("annotations", {})]
    assert {one["metadata"]["annotations"]["helm.sh/hook"] for one in hooks} == {"test"}
    # Pods wait for the Job, so it must come with them: a hook would come after --wait is over, or before its claim.
    assert {one["kind"] for one in hooks} == {"ServiceAccount", "Pod"}
    assert any("initContainers" in pod["spec"] for owner, pod in pods(everything))


def test_files_of_the_next_model_come_before_its_pool_does():
    values = merged(WEIGHTS, {"pools": {"next": {"enabled": False, "model": {"name": "example/next", "path": "next"}}}})
    values["pools"]["next"]["weights"] = {"prefetch": PREFETCH}
    manifests = rendered(**values)
    assert set(of_kind(manifests, "Deployment")) == {"try-large"}
    (job,) = of_kind(manifests, "Job").values()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert variables(container)["REPOSITORY"] == "example/next"
    assert variables(container)["FOLDER"] == "/models/next"


def test_a_pod_waits_for_the_very_files_that_the_job_verifies(everything):
    waited = {
        variables(first)["FOLDER"]: variables(first)["WISH"]
        for _, pod in pods(everything)
        for first in pod["spec"].get("initContainers", ())
    }
    verified = {
        variables(container)["FOLDER"]: variables(container)["WISH"]
        for job in of_kind(everything, "Job").values()
        for container in job["spec"]["template"]["spec"]["containers"]
    }
    assert waited
    assert verified.items() >= waited.items()


def test_a_claim_that_a_job_fills_is_not_attached_for_reading_only(everything):
    def volume(manifests):
        return next(one for one in pool_pod(manifests)["spec"]["volumes"] if one["name"] == "models")

    assert volume(everything)["persistentVolumeClaim"]["readOnly"] is False
    assert volume(rendered(**WEIGHTS))["persistentVolumeClaim"]["readOnly"] is True


def test_another_job_has_another_name_and_the_same_one_keeps_it():
    def name(**changed):
        weights = {"from": "claim", "prefetch": PREFETCH | changed}
        (job,) = of_kind(rendered(**with_large(weights=weights)), "Job")
        return job

    assert name() == name()
    assert len({name(), name(revision="b" * 40), name(endpoint="https://hub.local"), name(maxSeconds=100)}) == 4


def test_a_new_version_of_the_chart_alone_loads_no_model_again(everything):
    for owner, pod in pods(everything):
        if owner["kind"] != "Pod":
            assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(labels_of(pod)), owner["metadata"]["name"]


def test_claims_outlive_the_release(everything):
    for claim in of_kind(everything, "PersistentVolumeClaim").values():
        assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_no_number_is_written_with_an_exponent(everything):
    assert not [text for text in strings(everything) if re.search(r"\d\.?\d*e\+\d", text)]


def test_names_of_the_longest_release_fit(default):
    names = [one["metadata"]["name"] for one in default]
    longest = max(len(name.replace("try", "", 1)) for name in names)
    # 52 for release and pool; an object adds at most a hash or `-headless`.
    assert longest - len("-large") <= 63 - 52


# ---- the gateway's file


def test_the_gateway_can_read_its_pools_file(everything):
    text = of_kind(everything, "ConfigMap")["try-pools"]["data"]["pools.yaml"]
    found = {one["name"]: PoolConfiguration.model_validate(one) for one in yaml.safe_load(text)["pools"]}
    assert set(found) == {"large", "small", "judge"}
    services = of_kind(everything, "Service")
    for name, pool in found.items():
        host, _, port = pool.dns.partition(":")
        service = services[host.removesuffix(".default.svc")]
        assert service["spec"]["clusterIP"] == "None"
        assert int(port) == service["spec"]["ports"][0]["port"]
        assert pool.max_in_flight == int(flag(server(pool_pod(everything, name)), "max-num-seqs"))
    assert found["large"].models == ("meta-llama/Llama-3.1-70B-Instruct", "es", "sql")


def test_the_gateway_finds_the_keys_that_its_pools_file_names(everything):
    text = of_kind(everything, "ConfigMap")["try-pools"]["data"]["pools.yaml"]
    files = [Path(one["api_key_file"]) for one in yaml.safe_load(text)["pools"]]
    keys = {"large": "key-of-large", "small": "key", "judge": "key"}
    gateway = render(**GOOD, model={"existingPools": "try-pools", "poolKeys": keys})
    pod = of_kind(gateway, "Deployment")["try-gateway"]["spec"]["template"]["spec"]
    mounts = {one["mountPath"]: one["name"] for one in pod["containers"][0]["volumeMounts"]}
    volumes = {one["name"]: one.get("secret") for one in pod["volumes"]}
    assert len(files) == len(keys)
    assert all(str(file.parent) in mounts for file in files)
    assert volumes[mounts["/etc/sabueso/model-keys/large"]] == {"secretName": "key-of-large", "defaultMode": 0o440}


def test_no_config_map_holds_a_secret(everything):
    for config in of_kind(everything, "ConfigMap").values():
        assert not re.search(r"(?i)(token|password|secret|bearer)\s*[:=]", str(config["data"]))


# ---- who may talk to whom


def test_the_gateway_reaches_a_pool_and_a_stranger_does_not(everything):
    pod = pool_pod(everything)
    assert allowed(everything, GATEWAY, pod, "http")
    assert allowed(everything, GATEWAY | {"app.kubernetes.io/name": "evaluation"}, pod, "http")
    assert not allowed(everything, GATEWAY | {"app.kubernetes.io/name": "web-tool"}, pod, "http")
    assert not allowed(everything, {"app.kubernetes.io/name": "gateway"}, pod, "http")


def test_gateway_and_pools_agree_on_the_way_between_them(default_manifests, everything):
    both = [*default_manifests, *everything]
    gateway = of_kind(default_manifests, "Deployment")["try-gateway"]["spec"]["template"]
    assert allowed(both, labels_of(gateway), pool_pod(everything), "http")
    tool = of_kind(default_manifests, "Deployment")["try-sql-tool"]["spec"]["template"]
    assert not allowed(both, labels_of(tool), pool_pod(everything), "http")


def test_the_test_of_the_release_reaches_every_pool(everything):
    source = labels_of(of_kind(everything, "Pod")["try-pools-test"])
    for name in ("large", "small", "judge"):
        assert allowed(everything, source, pool_pod(everything, name), "http")


def test_every_pod_is_under_a_policy_and_can_look_up_names(everything):
    policies = [one["spec"] for one in of_kind(everything, "NetworkPolicy").values()]
    for owner, pod in pods(everything):
        mine = [one for one in policies if selects(one["podSelector"], labels_of(pod))]
        assert mine, owner["metadata"]["name"]
        for policy in mine:
            assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
            ports = {(p["port"], p.get("protocol")) for rule in policy["egress"] for p in rule["ports"]}
            assert {(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")} <= ports


def test_a_pool_calls_nobody(default):
    (rule,) = of_kind(default, "NetworkPolicy")["try-large"]["spec"]["egress"]
    assert {port["port"] for port in rule["ports"]} == {53}


def test_prometheus_may_scrape_what_the_monitor_names(everything):
    monitor = of_kind(everything, "PodMonitor")["try-pools"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for name in ("large", "small", "judge"):
        pod = pool_pod(everything, name)
        assert selects(monitor["spec"]["selector"], labels_of(pod))
        assert endpoint["port"] in {port["name"] for port in server(pod)["ports"]}
        (rule,) = of_kind(everything, "NetworkPolicy")[f"try-{name}"]["spec"]["ingress"]
        assert {"port": endpoint["port"]} in rule["ports"]
        assert {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}} in rule["from"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_nothing_that_needs_an_operator_is_on_by_default(default):
    assert {one["apiVersion"] for one in default} == {"v1", "apps/v1", "networking.k8s.io/v1"}


# ---- replicas


@pytest.mark.parametrize(("replicas", "budgets"), [(0, 0), (1, 0), (2, 1), (5, 1)])
def test_a_drain_is_never_blocked(replicas, budgets):
    found = of_kind(rendered(**with_large(replicas=replicas)), "PodDisruptionBudget")
    assert len(found) == budgets
    for budget in found.values():
        assert budget["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budget["spec"]
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_who_scales_alone_says_how_many(default, scaled):
    assert of_kind(default, "Deployment")["try-large"]["spec"]["replicas"] == 1
    assert "replicas" not in of_kind(scaled, "Deployment")["try-large"]["spec"]
    assert "try-large" in of_kind(scaled, "PodDisruptionBudget")


def test_scaling_looks_at_the_queue_at_running_answers_and_at_the_cache(scaled):
    (scaling,) = of_kind(scaled, "ScaledObject").values()
    triggers = {one["name"]: one for one in scaling["spec"]["triggers"]}
    queries = {name: one["metadata"]["query"] for name, one in triggers.items()}
    assert "vllm:num_requests_waiting{" in queries["waiting"]
    assert "vllm:num_requests_running{" in queries["running"]
    assert queries["kv-cache"].startswith("avg(vllm:kv_cache_usage_perc{")
    assert not any("sum(" in query and "_perc" in query for query in queries.values())
    assert all(isinstance(one["metadata"]["threshold"], str) for one in triggers.values())
    container = server(pool_pod(scaled))
    most = int(flag(container, "max-num-seqs"))
    assert 0 < int(triggers["running"]["metadata"]["threshold"]) < most
    assert int(triggers["waiting"]["metadata"]["threshold"]) < int(flag(container, "max-num-queued-reqs")) - most
    assert 0 < float(triggers["kv-cache"]["metadata"]["threshold"]) < 1
    known = yaml.safe_load(Path("tests/data/metrics/exporters.yaml").read_text())["vllm"]["metrics"]
    assert {re.search(r"vllm:\w+", query)[0] for query in queries.values()} <= set(known)
    # A share of one is compared as it is; counts are shared out among the replicas.
    assert {one["metricType"] for one in triggers.values()} == {"AverageValue", "Value"}
    assert triggers["kv-cache"]["metricType"] == "Value"


def test_scaling_counts_the_pods_of_its_pool_only(scaled):
    (scaling,) = of_kind(scaled, "ScaledObject").values()
    for trigger in scaling["spec"]["triggers"]:
        assert 'namespace="default"' in trigger["metadata"]["query"]
        (pattern,) = re.findall(r'pod=~"([^"]+)"', trigger["metadata"]["query"])
        assert re.fullmatch(pattern, "try-large-5d8f9c7b6-x2x4z")
        assert not re.fullmatch(pattern, "try-large-b-5d8f9c7b6-x2x4z")


def test_scaling_down_waits(scaled):
    (scaling,) = of_kind(scaled, "ScaledObject").values()
    behaviour = scaling["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] >= 600
    assert scaling["spec"]["minReplicaCount"] >= 1


def test_two_pools_scale_by_their_own_number_of_sequences():
    values = merged(WEIGHTS, {"defaults": {"autoscaling": {"enabled": True}}, "pools": {"small": {"enabled": True}}})
    values["pools"]["small"]["maxNumSeqs"] = 64
    found = of_kind(rendered(**values), "ScaledObject")
    thresholds = {name: one["spec"]["triggers"][1]["metadata"]["threshold"] for name, one in found.items()}
    assert thresholds == {"try-large": "96", "try-small": "48"}
