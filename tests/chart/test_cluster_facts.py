"""What judges the charts is itself judged: on small objects whose answer is known."""

import copy

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_validate.utils import SchemaNotFoundError

from tests.chart.cluster_facts import allowed, breaches_of_restricted, check_schemas, quantity, selects

CONTAINER = {
    "name": "a",
    "image": "reg/a:1",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
POD = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [CONTAINER | {"ports": [{"name": "main", "containerPort": 80}]}],
    },
}


def object_of(kind, api, spec):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize("api", ["policy/v1beta1", "policy/v2"])
def test_a_kind_that_was_removed_or_never_was_is_refused(api):
    with pytest.raises(SchemaNotFoundError):
        check_schemas([object_of("PodDisruptionBudget", api, {})], ["1.37"])
    with pytest.raises(SchemaNotFoundError):
        check_schemas([object_of("NIMService", "apps.nvidia.com/v1alpha1", {})], ["1.37"])


@pytest.mark.parametrize(
    "wrong",
    [
        object_of("Pod", "v1", {"containers": [{"name": "a", "imag": "b"}]}),
        object_of("Pod", "v1", {"containers": [{"name": "a", "env": [{"name": "A", "value": 1}]}]}),
        object_of("Pod", "v1", {"containers": [{"name": "a", "readinessProbe": {"grpc": {"port": "main"}}}]}),
        object_of(
            "ScaledObject", "keda.sh/v1alpha1", {"scaleTargetRef": {"name": "a"}, "minReplicas": 1, "triggers": []}
        ),
        object_of(
            "ScaledObject",
            "keda.sh/v1alpha1",
            {"scaleTargetRef": {"name": "a"}, "triggers": [{"type": "prometheus", "metadata": {"threshold": 5}}]},
        ),
        object_of("PodMonitor", "monitoring.coreos.com/v1", {"selector": {}, "podMetricsEndpoint": []}),
        object_of("HTTPRoute", "gateway.networking.k8s.io/v1", {"rules": [{"backendRefs": [{"nam": "a"}]}]}),
        object_of("HTTPRoute", "gateway.networking.k8s.io/v1beta1", {}),
    ],
)
def test_what_a_schema_does_not_have_is_refused(wrong):
    with pytest.raises(jsonschema.ValidationError):
        check_schemas([wrong], ["1.37"])


def test_a_restricted_pod_breaks_no_rule():
    assert breaches_of_restricted(POD) == []


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("hostNetwork",), True, "hostNetwork"),
        (("hostIPC",), True, "hostIPC"),
        (("volumes",), [{"name": "v", "hostPath": {"path": "/"}}], "hostPath"),
        (("securityContext", "runAsNonRoot"), False, "runAsNonRoot"),
        (("securityContext", "runAsUser"), 0, "runAsUser 0"),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}, "seccompProfile"),
        (("containers", 0, "securityContext", "privileged"), True, "privileged"),
        (("containers", 0, "securityContext", "capabilities"), {}, "capabilities.drop"),
        (("containers", 0, "securityContext", "capabilities"), {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "add"),
        (("containers", 0, "ports", 0, "hostPort"), 80, "hostPort"),
        (("initContainers",), [{"name": "i", "image": "b"}], "i: allowPrivilegeEscalation"),
    ],
)
def test_each_rule_is_noticed_when_it_is_broken(where, value, says):
    pod = copy.deepcopy(POD)
    place = pod["spec"]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    assert any(says in breach for breach in breaches_of_restricted(pod))


def policy(**spec):
    return object_of("NetworkPolicy", "networking.k8s.io/v1", {"podSelector": {}, "policyTypes": ["Ingress"]} | spec)


@pytest.mark.parametrize(
    ("policies", "passes"),
    [
        ([], True),
        ([policy()], False),
        ([policy(ingress=[{}])], True),
        ([policy(ingress=[{"ports": [{"port": "main"}]}])], True),
        ([policy(ingress=[{"ports": [{"port": 81}]}])], False),
        ([policy(ingress=[{"ports": [{"port": 80, "protocol": "UDP"}]}])], False),
        ([policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "b"}}}]}])], True),
        ([policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "c"}}}]}])], False),
        ([policy(ingress=[{"from": [{"namespaceSelector": {}, "podSelector": {}}]}])], False),
        ([policy(ingress=[{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}])], False),
        ([policy(podSelector={"matchLabels": {"app": "z"}})], True),
        ([policy(policyTypes=["Egress"], egress=[])], False),
        ([policy(policyTypes=["Egress"], egress=[{"ports": [{"port": 80}]}])], True),
    ],
)
def test_policies_are_read_as_kubernetes_reads_them(policies, passes):
    assert allowed(policies, {"app": "b"}, POD, "main") == passes


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(LABELS, LABELS)
def test_a_selector_of_labels_is_one_of_expressions(wanted, labels):
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    assert selects({"matchLabels": wanted}, labels) == selects({"matchExpressions": expressions}, labels)
    assert selects({}, labels)


@pytest.mark.parametrize(
    ("text", "number"), [("250m", 0.25), ("2", 2), ("1Gi", 2**30), ("1.5G", 1.5e9), (3, 3), ("64Mi", 2**26)]
)
def test_quantities_are_numbers(text, number):
    assert quantity(text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["1 Gi", "Gi", "-1", "1gi"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="no quantity"):
        quantity(text)
