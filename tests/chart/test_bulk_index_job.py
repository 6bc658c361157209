"""The manifest of a bulk run (k8s/ray/bulk-index.yaml): a command that there is, pods as restricted as the charts'."""

import shlex
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from services.cli.main import app
from services.ingestion.bulk.config import Settings
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
from tests.chart.vllm_pools import plain

PATH = "k8s/ray/bulk-index.yaml"


@pytest.fixture(scope="module")
def manifests():
    return plain(PATH)


@pytest.fixture(scope="module")
def job(manifests):
    return manifests[0]["spec"]


@pytest.fixture(scope="module")
def job_pods(job):
    cluster = job["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    return {
        "submitter": job["submitterPodTemplate"],
        "head": cluster["headGroupSpec"]["template"],
        "worker": group["template"],
    }


def options_of(job):
    """The command's arguments as it understands them."""
    name, command, *words = shlex.split(job["entrypoint"])
    assert (name, command) == ("sabueso", "bulk-index")
    return get_command(app).commands["bulk-index"].make_context("bulk-index", words).params


def test_the_job_s_command_is_one_that_there_is_and_joins_the_job_s_own_cluster(job):
    options = options_of(job)
    assert options["address"] == "auto"
    assert options["tenant"]
    assert options["collection"]


def test_workers_fit_into_the_cluster(job):
    options = options_of(job)
    (group,) = job["rayClusterSpec"]["workerGroupSpecs"]
    (worker,) = containers(group["template"])
    cpus = group["replicas"] * quantity(worker["resources"]["limits"]["cpu"])
    assert options["workers"] + 0.25 * options["storers"] + options["encoders"] * options["encoder_cpus"] <= cpus
    assert job["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    (shm,) = (one for one in group["template"]["spec"]["volumes"] if one["name"] == "shm")
    assert 2 * options["waiting_mib"] * 2**20 <= group["replicas"] * quantity(shm["emptyDir"]["sizeLimit"])


def test_pods_are_restricted_and_end_with_the_job(job, job_pods, manifests):
    for name, pod in job_pods.items():
        as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **pod["metadata"]}, "spec": pod["spec"]}
        check_schemas([as_pod], ("1.37",))
        assert breaches_of_restricted(pod) == []
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"]
        assert pod["spec"]["automountServiceAccountToken"] is False
    check_schemas(manifests[1:], ("1.37",))
    assert job["shutdownAfterJobFinishes"] is True
    assert job["rayClusterSpec"]["authOptions"] == {"mode": "token"}


def test_what_the_command_names_is_mounted_where_it_runs(job, job_pods):
    options = options_of(job)
    mounts = {
        name: {one["mountPath"]: one for one in containers(pod)[0]["volumeMounts"]} for name, pod in job_pods.items()
    }
    for path in options["paths"]:
        for name in ("head", "worker"):
            assert mounts[name][path]["readOnly"]
    assert str(options["ledger"].parent) in mounts["head"]
    for pod in job_pods.values():
        volumes = {one["name"] for one in pod["spec"]["volumes"]}
        assert {one["name"] for one in containers(pod)[0]["volumeMounts"]} <= volumes


def test_settings_are_ones_that_a_run_knows_and_the_same_everywhere(job_pods):
    environments = [containers(job_pods[name])[0]["env"] for name in ("head", "worker")]
    assert environments[0] == environments[1]
    names = {one["name"] for one in environments[0]}
    known = {f"SABUESO_{name.upper()}" for name in Settings.model_fields} | {"HOME"}
    assert names <= known
    assert {"SABUESO_IDENTITY_SECRET", "SABUESO_RETRIEVAL_ADDRESS", "SABUESO_EMBEDDING_ADDRESS"} <= names


def test_ray_is_the_version_of_the_other_manifests(job):
    others = yaml.safe_load_all(Path("k8s/ray/embedding.yaml").read_text())
    assert job["rayClusterSpec"]["rayVersion"] == next(others)["spec"]["rayClusterConfig"]["rayVersion"]


def test_the_services_of_the_chart_let_the_run_in_and_the_run_lets_nobody_in(manifests, job_pods):
    chart = render(**GOOD)
    policies = of_kind([*manifests], "NetworkPolicy").values()
    deployments = of_kind(chart, "Deployment") | of_kind(chart, "StatefulSet")
    worker = labels_of(job_pods["worker"])
    for name in ("retrieval", "embedding", "tool-cache"):
        pod = deployments[f"try-{name}"]["spec"]["template"]
        assert not allowed(chart, worker, pod, 50051)
        assert allowed([*chart, *policies], worker, pod, 50051)
    sql = deployments["try-sql-tool"]["spec"]["template"]
    assert not allowed([*chart, *policies], worker, sql, 50051)
    head = job_pods["head"]
    assert allowed([*chart, *policies], labels_of(job_pods["submitter"]), head, 8265)
    for port in (6379, 8265, 10001):
        assert not allowed([*chart, *policies], {"app.kubernetes.io/name": "stranger"}, head, port)
