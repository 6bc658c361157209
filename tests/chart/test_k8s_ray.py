"""Ray's manifests in k8s/ray: true to contract and settings, as restricted as the charts' pods, sums for a quota."""

import importlib
import itertools
import re
from pathlib import Path

import pytest
import yaml

from tests.chart.cluster_facts import (
    GOOD,
    allowed,
    breaches_of_restricted,
    check_schemas,
    containers,
    labels_of,
    of_kind,
    quantity,
    render,
)
from tests.chart.vllm_pools import merged, plain, variables

RAY = ("embedding", "reranking")


@pytest.fixture(scope="module", params=RAY)
def ray(request):
    service, policy = plain(f"k8s/ray/{request.param}.yaml")
    return request.param, service, policy


def ray_pods(service):
    cluster = service["spec"]["rayClusterConfig"]
    return {"head": cluster["headGroupSpec"]["template"]} | {
        group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]
    }


def test_ray_serves_what_the_contract_says(ray):
    name, service, _ = ray
    serve = yaml.safe_load(service["spec"]["serveConfigV2"])
    (application,) = serve["applications"]
    assert application["import_path"] == f"services.{name}.ray_app:app"
    for function in serve["grpc_options"]["grpc_servicer_functions"]:
        module, _, attribute = function.rpartition(".")
        assert callable(getattr(importlib.import_module(module), attribute))
    (port,) = service["spec"]["serveService"]["spec"]["ports"]
    ports = {one["name"]: one["containerPort"] for one in containers(ray_pods(service)["head"])[0]["ports"]}
    # KubeRay takes the head's port of this name, and no other.
    assert port == {"name": "serve", "port": serve["grpc_options"]["port"]}
    assert ports["serve"] == port["port"]
    assert service["spec"]["serveService"]["spec"]["clusterIP"] == "None"


def test_no_replica_runs_on_ray_s_head_and_an_upgrade_is_chosen(ray):
    _, service, _ = ray
    assert service["spec"]["rayClusterConfig"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert service["spec"]["excludeHeadPodFromServeSvc"] is True
    assert service["spec"]["upgradeStrategy"]["type"] in ("NewCluster", "None")


def test_ray_s_pods_are_restricted_and_take_no_gpu(ray):
    _, service, policy = ray
    for name, pod in ray_pods(service).items():
        as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **pod["metadata"]}, "spec": pod["spec"]}
        check_schemas([as_pod], ("1.37",))
        assert breaches_of_restricted(pod) == []
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert "nvidia.com/gpu" not in container["resources"]["limits"]
            assert "tolerations" not in pod["spec"]
        assert pod["metadata"]["labels"].items() >= policy["spec"]["podSelector"]["matchLabels"].items()


def test_a_worker_of_ray_holds_a_replica_and_ends_after_it(ray):
    _, service, _ = ray
    (application,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    (deployment,) = application["deployments"]
    (group,) = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    (worker,) = containers(group["template"])
    assert quantity(worker["resources"]["requests"]["cpu"]) > deployment["ray_actor_options"]["num_cpus"]
    assert deployment["autoscaling_config"]["max_replicas"] <= group["maxReplicas"]
    before = worker["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert group["template"]["spec"]["terminationGracePeriodSeconds"] >= (
        before + deployment["graceful_shutdown_timeout_s"] + 15
    )


def test_ray_s_settings_are_ones_that_the_service_knows(ray):
    name, service, _ = ray
    known = importlib.import_module(f"services.{name}.config").Settings.model_fields
    for container in itertools.chain.from_iterable(containers(pod) for pod in ray_pods(service).values()):
        for variable in container.get("env", ()):
            assert variable["name"].removeprefix("SABUESO_").lower() in known


def test_the_sums_for_a_quota_are_right():
    """Of each service: an upgrade makes a second cluster before the first one goes (docs/model-pool.md)."""
    table = dict(re.findall(r"^\| (CPU|memory) \|.*\| ([^|]+) \|$", Path("docs/model-pool.md").read_text(), re.M))
    for name in RAY:
        cluster = plain(f"k8s/ray/{name}.yaml")[0]["spec"]["rayClusterConfig"]
        (group,) = cluster["workerGroupSpecs"]
        for resource, word, unit in (("cpu", "CPU", 1), ("memory", "memory", 2**30)):
            head, worker = (
                sum(quantity(one["resources"]["requests"][resource]) for one in containers(pod)) / unit
                for pod in (cluster["headGroupSpec"]["template"], group["template"])
            )
            sums = [int(2 * (head + count * worker)) for count in (group["minReplicas"], group["maxReplicas"])]
            assert [int(number) for number in re.findall(r"\d+", table[word])] == sums


def test_ray_is_one_version():
    versions = {plain(f"k8s/ray/{name}.yaml")[0]["spec"]["rayClusterConfig"]["rayVersion"] for name in RAY}
    assert len(versions) == 1


@pytest.fixture(scope="module")
def beside_ray(ray):
    """The chart, told as the manifest's own first lines say; its callers must find and reach Ray."""
    name, _, _ = ray
    (line,) = re.findall(r"^#   (services: .+)$", Path(f"k8s/ray/{name}.yaml").read_text(), re.M)
    return render(**merged(GOOD, yaml.safe_load(line)))


def test_the_chart_sends_callers_to_ray_as_the_manifest_says(ray, beside_ray):
    name, service, policy = ray
    deployments = of_kind(beside_ray, "Deployment")
    assert f"try-{name}" not in deployments
    address = f"dns:///{service['spec']['serveService']['metadata']['name']}.sabueso.svc:50051"
    worker = ray_pods(service)["cpu"]
    pod = {"metadata": worker["metadata"], "spec": worker["spec"]}
    callers = []
    for deployment in deployments.values():
        caller = deployment["spec"]["template"]
        given = variables(caller["spec"]["containers"][0])
        if f"SABUESO_{name.upper()}_ADDRESS" in given:
            assert given[f"SABUESO_{name.upper()}_ADDRESS"] == address
            assert allowed([*beside_ray, policy], labels_of(caller), pod, 50051)
            callers.append(deployment["metadata"]["name"])
    assert "try-retrieval" in callers
    assert not allowed([*beside_ray, policy], {"app.kubernetes.io/name": "stranger"}, pod, 50051)
