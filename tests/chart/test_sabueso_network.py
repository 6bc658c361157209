"""Network policies of charts/sabueso: whoever calls gets through, in both directions, and nobody else does."""

import itertools
from pathlib import Path

import pytest
import yaml

from tests.chart.cluster_facts import GOOD, allowed, labels_of, of_kind, passes, pods, render
from tests.chart.sabueso_values import PEERS, rendered

SERVICES = yaml.safe_load(Path("charts/sabueso/values.yaml").read_text())["services"]
# Addresses at which something public, and something private, can be.
PUBLIC, PRIVATE = "93.184.216.34", ("10.1.2.3", "192.168.1.1", "169.254.169.254", "172.20.0.1", "100.64.1.1")


def made(manifests):
    return {owner["metadata"]["name"].removeprefix("try-"): pod for owner, pod in pods(manifests)}


@pytest.fixture(scope="module")
def closed():
    """A release whose gateway may be called by named peers only."""
    return render(**GOOD, networkPolicy={"clients": PEERS})


def test_calls_are_let_through_and_nothing_else_is(closed):
    by_name = made(closed)
    for (caller, service), called in itertools.product(SERVICES.items(), SERVICES):
        source, target = by_name.get(caller.replace("_", "-")), by_name.get(called.replace("_", "-"))
        if source is None or target is None or caller == called:
            continue
        # Each direction by itself: one that is too wide would be hidden by the other.
        for direction in ("Egress", "Ingress"):
            passed = passes(direction, closed, labels_of(source), target, "main")
            assert passed == (called in service["calls"]), (direction, caller, called)


def test_tests_and_weekly_runs_reach_the_gateway_even_when_it_is_closed_to_others():
    manifests = rendered("taken in")
    by_name = made(manifests)
    for name in ("test", "evaluation-weekly"):
        assert allowed(manifests, labels_of(by_name[name]), by_name["gateway"], "main"), name
    assert not allowed(manifests, {"app": "stranger"}, by_name["gateway"], "main")


def test_metrics_are_for_those_who_collect_them(closed):
    by_name = made(closed)
    for caller, called in itertools.product(by_name, by_name):
        if caller != called and called != "test":
            assert not allowed(closed, labels_of(by_name[caller]), by_name[called], "metrics"), (caller, called)
    for name, policy in of_kind(closed, "NetworkPolicy").items():
        rules = [rule for rule in policy["spec"]["ingress"] if {"port": "metrics"} in rule["ports"]]
        assert [rule["from"] for rule in rules] == (
            []
            if name == "try-test"
            else [[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]]
        )


def test_strangers_reach_nothing():
    """Neither other pods of the namespace, nor pods of other namespaces; the gateway is for everyone unless told."""
    manifests = rendered("tryout")
    for name, pod in made(manifests).items():
        for port in {one["name"] for one in pod["spec"]["containers"][0].get("ports", ())} or {80}:
            expected = (name, port) == ("gateway", "main")
            assert allowed(manifests, {"app": "stranger"}, pod, port) == expected, (name, port)


def test_every_pod_has_a_policy_in_both_directions():
    for release in ("least", "taken in", "built in"):
        manifests = rendered(release)
        names = {owner["metadata"]["name"] for owner, _ in pods(manifests)}
        policies = of_kind(manifests, "NetworkPolicy")
        assert names == set(policies)
        assert all(one["spec"]["policyTypes"] == ["Ingress", "Egress"] for one in policies.values())


@pytest.mark.parametrize(("release", "ports"), [("least", {53}), ("taken in", {53, 5353})])
def test_whoever_calls_by_name_can_look_the_name_up(release, ports):
    """Over TCP too: the addresses of many pods do not fit into one packet of UDP."""
    for name, policy in of_kind(rendered(release), "NetworkPolicy").items():
        rules = policy["spec"]["egress"]
        dns = {(one["port"], one.get("protocol")) for rule in rules if "to" not in rule for one in rule["ports"]}
        assert {(port, protocol) for port in ports for protocol in ("UDP", "TCP")} <= dns, name


def _ports_out(policy, peers=None):
    """Ports that a policy lets out, to these peers only, or to anywhere."""
    return {
        one["port"]
        for rule in policy["spec"]["egress"]
        for one in rule["ports"]
        if rule.get("to") == peers and one["protocol"] == "TCP"
    }


def test_backing_services_are_reached_by_the_port_of_their_url():
    urls = {
        "valkey": {"url": "rediss://valkey.test:6390/0"},
        "qdrant": {"url": "https://qdrant.test"},
        "model": {"url": "http://[fd00::1]:8123/v1"},
        "searxng": {"url": "http://searxng"},
        "otlp": {"endpoint": "http://otel"},
    }
    policies = of_kind(render(**GOOD, **urls), "NetworkPolicy")
    assert {6390, 8123, 80} <= _ports_out(policies["try-gateway"])
    assert {443, 6334, 80} <= _ports_out(policies["try-retrieval"])
    assert {80} <= _ports_out(policies["try-web-tool"])
    assert 6390 not in _ports_out(policies["try-retrieval"])


def test_every_port_of_an_address_is_opened():
    """Several servers of one service, each at a port of its own, and one by its IPv6 address."""
    address = "dns:///e1.test:9001,e2.test:9002,dns:///[fd00::1]:9003"
    policies = of_kind(render(**GOOD, services={"embedding": {"enabled": False, "address": address}}), "NetworkPolicy")
    assert {9001, 9002, 9003} <= _ports_out(policies["try-retrieval"])


def test_backing_services_are_reached_where_they_are_said_to_be():
    policies = of_kind(rendered("taken in"), "NetworkPolicy")
    assert {6380, 8000, 8001} <= _ports_out(policies["try-gateway"], PEERS)
    assert {6333, 6334} <= _ports_out(policies["try-retrieval"], PEERS)
    # A service that lives elsewhere, by the port of its address.
    assert {9000} <= _ports_out(policies["try-retrieval"], PEERS)
    assert {9000} <= _ports_out(policies["try-gateway"])


def test_what_is_built_in_is_reached_by_who_needs_it_and_calls_nobody():
    manifests = rendered("built in")
    by_name = made(manifests)
    callers = {
        "valkey": {"gateway", "orchestrator", "ingestion", "tool-cache"},
        "qdrant": {"retrieval"},
        "postgresql": {"evaluation", "evaluation-weekly"},
    }
    for target, wanted in callers.items():
        port = by_name[target]["spec"]["containers"][0]["ports"][0]["name"]
        found = {name for name, pod in by_name.items() if allowed(manifests, labels_of(pod), by_name[target], port)}
        assert found - {target} == wanted
        assert of_kind(manifests, "NetworkPolicy")[f"try-{target}"]["spec"].get("egress") is None


def test_the_web_tool_reaches_the_public_web_and_nothing_private():
    """Whatever a page makes it fetch: the metadata of clouds and the cluster's own addresses are out of reach."""
    import ipaddress

    policy = of_kind(rendered("least"), "NetworkPolicy")["try-web-tool"]
    blocks = [peer["ipBlock"] for rule in policy["spec"]["egress"] for peer in rule.get("to", ()) if "ipBlock" in peer]

    def reached(address):
        place = ipaddress.ip_address(address)
        return any(
            place in ipaddress.ip_network(block["cidr"])
            and not any(place in ipaddress.ip_network(one) for one in block.get("except", ()))
            for block in blocks
        )

    assert reached(PUBLIC)
    assert reached("2606:2800:220:1::1")
    assert not any(map(reached, (*PRIVATE, "127.0.0.1", "::1", "fd00::1", "fe80::1")))
    # By no other rule: all that leads anywhere is DNS.
    assert _ports_out(policy) == {53}


def test_what_a_service_calls_is_spread_over_all_of_its_pods():
    """gRPC keeps a connection: only a client that sees every pod can spread its calls."""
    manifests = rendered("least")
    services = of_kind(manifests, "Service")
    for name, service in SERVICES.items():
        if name == "understudy":
            continue
        (container,) = made(manifests)[name.replace("_", "-")]["spec"]["containers"]
        environment = {one["name"]: one.get("value") for one in container["env"]}
        for called in service["calls"]:
            if called == "gateway":
                continue
            address = environment[f"SABUESO_{called.upper()}_ADDRESS"]
            assert address == f"dns:///try-{called.replace('_', '-')}-headless:50051"
            found = services[address.removeprefix("dns:///").removesuffix(":50051")]
            assert found["spec"]["clusterIP"] == "None"
            assert found["spec"]["ports"][0]["port"] == 50051
            assert services[f"try-{called.replace('_', '-')}"]["spec"].get("clusterIP") != "None"


def test_clients_take_addresses_as_the_chart_writes_them_and_spread_their_calls():
    from services.runtime.channels import _service_config

    assert _service_config(())["loadBalancingConfig"] == [{"round_robin": {}}]


def test_new_pods_are_found_because_connections_age():
    from services.runtime.settings import ServerSettings

    assert ServerSettings.model_fields["max_connection_age_seconds"].default <= 600


def test_a_service_that_is_left_out_is_called_nowhere():
    """Its callers learn at once that nobody is there; and one that lives elsewhere is called there."""
    manifests = rendered("built in")
    (container,) = made(manifests)["orchestrator"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["SABUESO_SQL_TOOL_ADDRESS"] == "dns:///disabled.invalid:50051"
    assert "sql-tool" not in made(manifests)
    (container,) = made(rendered("taken in"))["orchestrator"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["SABUESO_EMBEDDING_ADDRESS"] == "dns:///embedding-serve:9000"
    values = GOOD | {"services": {"evaluation": {"enabled": False}}}
    (container,) = made(render(**values))["orchestrator"]["spec"]["containers"]
    assert "SABUESO_EVALUATION_ADDRESS" not in {one["name"] for one in container["env"]}


@pytest.mark.parametrize(
    "exposed", [{"ingress": {"enabled": True}}, {"httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}]}}]
)
def test_the_way_in_leads_to_the_gateway(exposed):
    manifests = render(**GOOD, **exposed)
    service = of_kind(manifests, "Service")["try-gateway"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    (way,) = (one for one in manifests if one["kind"] in ("Ingress", "HTTPRoute"))
    if way["kind"] == "Ingress":
        (path,) = way["spec"]["rules"][0]["http"]["paths"]
        assert path["backend"]["service"] == {"name": "try-gateway", "port": {"name": "http"}}
        assert "http" in ports
    else:
        assert way["spec"]["rules"][0]["backendRefs"] == [{"name": "try-gateway", "port": ports["http"]}]
        # Longer than any answer may take.
        assert way["spec"]["rules"][0]["timeouts"]["request"] == "600s"
