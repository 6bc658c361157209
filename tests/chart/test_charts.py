"""The charts as Helm renders them: valid for Kubernetes, and true to what the services are."""

import importlib
from pathlib import Path

import helm_python
import kubernetes_validate
import pytest
import yaml

from local.programs import CALLS, GRPC_SERVICES

GOOD = {
    "existingSecret": "sabueso",
    "tenants": {"existingConfigMap": "tenants"},
    "databases": {"existingSecret": "databases"},
}


def render(chart="sabueso", **values):
    with helm_python.Chart.load(f"charts/{chart}") as loaded:
        files = loaded.render(values, name="try", namespace="default")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


@pytest.fixture(scope="module")
def manifests():
    return render(**GOOD)


def of_kind(manifests, kind):
    return {m["metadata"]["name"]: m for m in manifests if m["kind"] == kind}


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_every_manifest_fits_the_schema_of_kubernetes(manifests, version):
    for manifest in [*manifests, *render("vllm", existingClaim="weights")]:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_every_service_of_the_local_stack_is_deployed(manifests):
    wanted = {f"try-{name.replace('_', '-')}" for name in (*GRPC_SERVICES, "gateway")}
    assert set(of_kind(manifests, "Deployment")) == wanted
    assert set(of_kind(manifests, "Service")) == wanted


def test_the_call_graph_is_that_of_the_local_stack():
    services = yaml.safe_load(Path("charts/sabueso/values.yaml").read_text())["services"]
    for name, service in services.items():
        assert {c for c in service["calls"] if c != "gateway"} == set(CALLS.get(name, ())), name


def settings_of(service):
    """Environment variables that the service knows."""
    config = importlib.import_module(f"services.{service.replace('-', '_')}.config")
    return {f"SABUESO_{name.upper()}" for name in config.Settings.model_fields}


def test_every_variable_is_one_that_the_service_knows(manifests):
    """A service stops at a variable that it does not know."""
    for name, deployment in of_kind(manifests, "Deployment").items():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        given = {variable["name"] for variable in container["env"] if variable["name"].startswith("SABUESO_")}
        assert given <= settings_of(name.removeprefix("try-")), name


def test_a_variable_can_come_from_a_secret():
    keys = {"SABUESO_BRAVE_API_KEY": {"secret": "search-keys", "key": "brave"}}
    deployment = of_kind(render(**GOOD, services={"web_tool": {"secretEnv": keys}}), "Deployment")["try-web-tool"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (variable,) = [one for one in container["env"] if one["name"] == "SABUESO_BRAVE_API_KEY"]
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "search-keys", "key": "brave"}}


def test_pods_are_restricted(manifests):
    for name, deployment in of_kind(manifests, "Deployment").items():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["enableServiceLinks"] is False, name
        assert pod["automountServiceAccountToken"] is False, name
        assert container["securityContext"]["readOnlyRootFilesystem"], name
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["limits"]["memory"], name
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container), name


def test_only_callers_reach_a_service(manifests):
    policy = of_kind(manifests, "NetworkPolicy")["try-sql-tool"]
    callers = [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
        for rule in policy["spec"]["ingress"]
        for peer in rule.get("from", ())
    ]
    assert callers == ["orchestrator"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "existingSecret"),
        ({**GOOD, "imagee": {}}, "imagee"),
        ({**GOOD, "valkeyUrl": "valkey:6379"}, "valkeyUrl"),
        ({**GOOD, "services": {"gateway": {"calls": ["nobody"]}}}, "nobody"),
    ],
)
def test_wrong_values_are_refused_by_name(values, says):
    with pytest.raises(Exception, match=says):
        render(**values)


@pytest.mark.parametrize(("chart", "values"), [("sabueso", GOOD), ("vllm", {"existingClaim": "weights"})])
def test_the_chart_lints(chart, values):
    report = helm_python.lint(f"charts/{chart}", values)
    assert report["total_charts_linted"] == 1
    assert not report["errors"]
    assert not [m for m in report["messages"] if m["severity"] >= 2], report
