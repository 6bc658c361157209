"""charts/sabueso with the least that it wants to know: valid for Kubernetes, and true to what the services are."""

import importlib
from pathlib import Path

import helm_python
import pytest
import yaml

from local.programs import CALLS, GRPC_SERVICES
from tests.chart.cluster_facts import GOOD, KUBERNETES, SEED, check_schemas, containers, of_kind, pods, render

__all__ = ["GOOD", "of_kind", "render"]


@pytest.fixture(scope="module")
def manifests(default_manifests):
    return default_manifests


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_manifest_fits_the_schema_of_kubernetes(manifests, version):
    check_schemas(manifests, [version])


def test_every_service_of_the_local_stack_is_deployed(manifests):
    wanted = {f"try-{name.replace('_', '-')}" for name in (*GRPC_SERVICES, "gateway")}
    assert set(of_kind(manifests, "Deployment")) == wanted
    headless = {f"try-{name.replace('_', '-')}-headless" for name in GRPC_SERVICES}
    assert set(of_kind(manifests, "Service")) == wanted | headless


def test_the_call_graph_is_that_of_the_local_stack():
    services = yaml.safe_load(Path("charts/sabueso/values.yaml").read_text())["services"]
    for name, service in services.items():
        assert {c for c in service["calls"] if c != "gateway"} == set(CALLS.get(name, ())), name


def settings_of(service):
    """Environment variables that the service knows."""
    config = importlib.import_module(f"services.{service.replace('-', '_')}.config")
    return {f"SABUESO_{name.upper()}" for name in config.Settings.model_fields}


def environment(manifests, name):
    (container,) = of_kind(manifests, "Deployment")[f"try-{name}"]["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


@pytest.mark.parametrize("tryout", [False, True])
def test_every_variable_is_one_that_the_service_knows(manifests, tryout, tryout_manifests):
    """A service stops at a variable that it does not know."""
    for name in of_kind(tryout_manifests if tryout else manifests, "Deployment"):
        service = name.removeprefix("try-")
        given = {one for one in environment(tryout_manifests if tryout else manifests, service) if "SABUESO_" in one}
        assert given <= settings_of(service), name


def test_every_value_is_one_that_the_service_takes(tryout_manifests):
    """The settings themselves take what the chart gives them."""
    for name in of_kind(tryout_manifests, "Deployment"):
        service = name.removeprefix("try-")
        config = importlib.import_module(f"services.{service.replace('-', '_')}.config")
        given = {
            key.removeprefix("SABUESO_").lower(): value if isinstance(value, str) else SEED
            for key, value in environment(tryout_manifests, service).items()
            if key.startswith("SABUESO_")
        }
        assert config.Settings(**given).port in (8080, 50051, 8000)


def test_a_variable_can_come_from_a_secret():
    keys = {"SABUESO_BRAVE_API_KEY": {"secret": "search-keys", "key": "brave"}}
    found = environment(render(**GOOD, services={"web_tool": {"secretEnv": keys}}), "web-tool")
    assert found["SABUESO_BRAVE_API_KEY"] == {"secretKeyRef": {"name": "search-keys", "key": "brave"}}


def test_probes_ask_grpc_services_by_the_names_that_they_have(manifests):
    """Readiness asks for the service, liveness for the process; the ports are numbers, as gRPC probes want them."""
    for name in GRPC_SERVICES:
        module = importlib.import_module(f"sabueso.{name}.v1.{name}_pb2")
        (known,) = [service.full_name for service in module.DESCRIPTOR.services_by_name.values()]
        deployment = of_kind(manifests, "Deployment")[f"try-{name.replace('_', '-')}"]
        (container,) = containers(deployment["spec"]["template"])
        assert container["startupProbe"]["grpc"] == container["readinessProbe"]["grpc"], name
        assert container["readinessProbe"]["grpc"] == {"port": 50051, "service": known}, name
        assert container["livenessProbe"]["grpc"] == {"port": 50051}, name


def test_scaling_is_by_metrics_that_the_services_have():
    services = yaml.safe_load(Path("charts/sabueso/values.yaml").read_text())["services"]
    for name, service in services.items():
        metric = service.get("scaling", {}).get("metric")
        if metric:
            code = "".join(path.read_text() for path in Path(f"services/{name}").rglob("*.py"))
            assert f'"{metric["name"]}"' in code, name


def test_every_pod_that_serves_names_an_image_of_its_own(manifests):
    named = {owner["metadata"]["name"]: containers(pod)[0]["image"] for owner, pod in pods(manifests)}
    for service in (*GRPC_SERVICES, "gateway"):
        name = service.replace("_", "-")
        assert named[f"try-{name}"] == f"registry.example.internal/sabueso-{name}:0.1.0"


def test_the_chart_lints():
    report = helm_python.lint("charts/sabueso", GOOD, strict=True)
    assert report["total_charts_linted"] == 1
    assert not report["errors"]
    assert not [m for m in report["messages"] if m["severity"] >= 2], report
