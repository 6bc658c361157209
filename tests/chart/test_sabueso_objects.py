"""Facts between the objects of charts/sabueso: names that are meant lead to what is meant."""

import json
import re
from pathlib import Path

import pytest

from tests.chart.cluster_facts import (
    GOOD,
    SEED,
    containers,
    images,
    labels_of,
    of_kind,
    pods,
    quantity,
    render,
    selects,
    strings,
)
from tests.chart.sabueso_values import BUILT_IN, TAKEN_IN, rendered

SELECTORS = Path("tests/data/chart/selectors.json")


@pytest.fixture(scope="module", params=["least", "taken in", "built in"])
def release(request):
    return rendered(request.param)


@pytest.fixture(scope="module")
def everything():
    return rendered("built in")


def test_every_selector_finds_the_pods_of_its_own_part_and_no_others(release):
    made = {(owner["kind"], owner["metadata"]["name"]): pod for owner, pod in pods(release)}
    for manifest in release:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        spec = manifest.get("spec", {})
        if kind == "Service":
            selector = {"matchLabels": spec["selector"]}
        elif kind in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
            selector = spec["selector"]
        elif kind == "NetworkPolicy":
            selector = spec["podSelector"]
        else:
            continue
        found = [owner for (_, owner), pod in made.items() if selects(selector, labels_of(pod))]
        assert found == [name.removesuffix("-headless")], (kind, name)


def test_every_port_of_a_service_is_one_of_its_pods(release):
    made = {owner["metadata"]["name"]: pod for owner, pod in pods(release)}
    for name, service in of_kind(release, "Service").items():
        (container,) = made[name.removesuffix("-headless")]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"], name


def test_every_probe_asks_a_port_that_is_open(release):
    for owner, pod in pods(release):
        for container in containers(pod):
            known = {port["name"] for port in container.get("ports", ())}
            numbers = {port["containerPort"] for port in container.get("ports", ())}
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                for way, question in container.get(kind, {}).items():
                    if way in ("httpGet", "tcpSocket"):
                        assert question["port"] in known, owner["metadata"]["name"]
                    if way == "grpc":
                        assert question["port"] in numbers, owner["metadata"]["name"]


def test_saturation_does_not_reach_liveness(release):
    """Whoever waits for answers is given two minutes before they are thought dead; readiness notices within 15 s."""
    for owner, pod in pods(release):
        for container in containers(pod):
            if "livenessProbe" not in container:
                assert owner["kind"] in ("CronJob", "Job", "Pod"), owner["metadata"]["name"]
                continue
            alive, ready = container["livenessProbe"], container["readinessProbe"]
            patience = alive["periodSeconds"] * alive["failureThreshold"]
            assert patience >= 120
            assert alive["timeoutSeconds"] >= 5
            assert patience > 3 * ready["periodSeconds"] * ready.get("failureThreshold", 3)
            # What says whether requests should come here is asked by readiness alone.
            assert (alive.get("httpGet") or {}).get("path") != "/readyz" or owner["metadata"]["name"] == "try-qdrant"


def test_a_start_may_take_as_long_as_is_said(release):
    for owner, pod in pods(release):
        if owner["kind"] != "Deployment":
            continue
        (container,) = containers(pod)
        probe = container["startupProbe"]
        budget = probe["periodSeconds"] * probe["failureThreshold"]
        assert budget >= 120
        # Else the rollout is given up before the pod is.
        assert owner["spec"]["progressDeadlineSeconds"] > budget


def test_a_pod_may_take_longer_to_end_than_it_takes():
    """preStop, the gateway's notice and farewell, and the grace that the services are told of."""
    from services.gateway.config import Settings

    # Read and not imported: the gateway's server takes seconds to import.
    farewell = re.search(r"_FAREWELL_SECONDS = ([\d.]+)", Path("services/gateway/server.py").read_text())
    notice = Settings.model_fields["shutdown_notice_seconds"].default
    patient = render(**GOOD, drain={"preStopSeconds": 30, "graceSeconds": 600})
    for manifests in (rendered("least"), patient):
        for owner, pod in pods(manifests):
            if owner["kind"] != "Deployment":
                continue
            (container,) = containers(pod)
            environment = {one["name"]: one.get("value") for one in container["env"]}
            needed = container["lifecycle"]["preStop"]["sleep"]["seconds"] + notice + float(farewell[1])
            needed += float(environment["SABUESO_SHUTDOWN_GRACE_SECONDS"])
            assert pod["spec"]["terminationGracePeriodSeconds"] > needed, owner["metadata"]["name"]


def test_answers_get_the_time_that_an_answer_may_take():
    from services.gateway.config import Settings

    manifests = rendered("least")
    (container,) = of_kind(manifests, "Deployment")["try-gateway"]["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    longest = Settings.model_fields["answer_deadline_seconds"].default
    assert float(environment["SABUESO_SHUTDOWN_GRACE_SECONDS"]) >= longest


def test_every_part_has_a_service_account_of_its_own_without_rights(release):
    accounts = of_kind(release, "ServiceAccount")
    used = [pod["spec"]["serviceAccountName"] for _, pod in pods(release)]
    assert sorted(used) == sorted(accounts)
    assert all(account["automountServiceAccountToken"] is False for account in accounts.values())
    assert not {one["kind"] for one in release} & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}


def test_every_container_says_what_it_needs_and_how_much_it_may_take(release):
    """A quota refuses whoever does not; those of hooks, tests and of what runs first are as good as any."""
    for owner, pod in pods(release):
        for container in containers(pod):
            resources = container["resources"]
            assert {"cpu", "memory"} <= set(resources["requests"]), owner["metadata"]["name"]
            assert quantity(resources["limits"]["memory"]) >= quantity(resources["requests"]["memory"])


def test_what_is_mounted_is_there_or_is_the_users(release):
    """No pod waits for an object of this release that is not in it; names that are the users' are those they gave."""
    ours = {(one["kind"], one["metadata"]["name"]) for one in release}
    claims = {f"data-{name}-0" for name in of_kind(release, "StatefulSet")}
    for owner, pod in pods(release):
        named = {("ServiceAccount", pod["spec"]["serviceAccountName"])}
        for volume in pod["spec"].get("volumes", ()):
            named |= {("ConfigMap", v["name"]) for key, v in volume.items() if key == "configMap"}
            named |= {("Secret", v["secretName"]) for key, v in volume.items() if key == "secret"}
            named |= {
                ("PersistentVolumeClaim", v["claimName"]) for key, v in volume.items() if key == "persistentVolumeClaim"
            }
        for container in containers(pod):
            for variable in container.get("env", ()):
                source = variable.get("valueFrom", {}).get("secretKeyRef")
                named |= {("Secret", source["name"])} if source else set()
        for kind, name in named:
            if name.startswith("try-"):
                assert (kind, name) in ours or name in claims, (owner["metadata"]["name"], kind, name)


def test_every_mounted_volume_is_one_of_the_pod(release):
    for owner, pod in pods(release):
        there = [volume["name"] for volume in pod["spec"].get("volumes", ())]
        there += [claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates", ())]
        assert len(there) == len(set(there))
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} == set(there), owner["metadata"]["name"]


def test_what_the_tryout_keeps_secret_is_in_its_secret_and_nowhere_else(everything):
    (secret,) = of_kind(everything, "Secret").values()
    values = set(secret["stringData"].values())
    assert all(len(value) == 64 for value in values)
    assert len(values) == 5  # the API key twice: for `helm test`, and for evaluation
    for manifest in everything:
        if manifest["kind"] != "Secret":
            for text in strings(manifest):
                assert SEED not in text
                assert not any(value in text for value in values), manifest["metadata"]["name"]


def test_no_pod_has_all_secrets_of_the_tryout_as_files():
    for owner, pod in pods(rendered("tryout")):
        for volume in pod["spec"].get("volumes", ()):
            if "secret" in volume:
                assert [one["key"] for one in volume["secret"]["items"]] == ["tryout.key"], owner["metadata"]["name"]


def test_no_config_map_holds_what_looks_like_a_secret(release):
    for name, one in of_kind(release, "ConfigMap").items():
        for key in one.get("data", {}):
            assert not any(word in key.lower() for word in ("token", "password", "secret", "credential", "api-key")), (
                name
            )


def test_no_variable_holds_a_secret_in_the_clear(release):
    for owner, pod in pods(release):
        for container in containers(pod):
            for one in container.get("env", ()):
                if one["name"].endswith(("_KEY", "_PASSWORD", "_SECRET", "_DSN", "_HEADERS", "_TOKEN")):
                    assert "valueFrom" in one or "$(" in one["value"], (owner["metadata"]["name"], one["name"])


@pytest.mark.parametrize("name", ["taken in", "built in"])
def test_every_image_comes_from_the_one_registry(name):
    found = images(rendered(name))
    assert len(found) >= 8
    assert all(image.startswith("reg.local:5000/") for image in found), found


def test_images_are_of_a_version(release):
    for image in images(release):
        assert ":latest" not in image
        assert "@sha256:" in image or ":" in image.rsplit("/", 1)[-1], image


def test_a_digest_takes_the_place_of_a_tag(everything):
    (container,) = of_kind(everything, "Deployment")["try-retrieval"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "reg.local:5000/sabueso-retrieval@sha256:" + "ab" * 32


def test_selectors_are_those_of_the_last_release(everything):
    """They cannot be changed: an upgrade with another selector is refused by the cluster."""
    found = {
        f"{kind}/{name}": one["spec"]["selector"]
        for kind in ("Deployment", "StatefulSet")
        for name, one in of_kind(everything, kind).items()
    }
    golden = json.loads(SELECTORS.read_text())
    assert {name: found[name] for name in golden if name in found} == {n: s for n, s in golden.items() if n in found}
    assert set(found) <= set(golden)
    allowed = {"name", "instance", "component"}
    for selector in found.values():
        assert {key.removeprefix("app.kubernetes.io/") for key in selector["matchLabels"]} <= allowed


def test_nothing_binds_to_ipv4_alone(release):
    for _, pod in pods(release):
        for container in containers(pod):
            environment = {one["name"]: one.get("value") for one in container.get("env", ())}
            assert environment.get("SABUESO_HOST", "[::]") == "[::]"
            probes = [container.get(kind) for kind in ("startupProbe", "readinessProbe", "livenessProbe")]
            assert "127.0.0.1" not in json.dumps([probes, container.get("command"), container.get("args")])
            assert "0.0.0.0" not in environment.values()


def test_data_outlives_the_release(release):
    for name, claim in of_kind(release, "PersistentVolumeClaim").items():
        assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep", name
    for one in of_kind(release, "StatefulSet").values():
        assert one["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_tests_come_after_the_release_and_before_nothing(release):
    """No hook runs before the release is there, and so none needs what is not there yet."""
    for manifest in release:
        hook = manifest["metadata"].get("annotations", {}).get("helm.sh/hook")
        assert hook in (None, "test"), manifest["metadata"]["name"]


def test_a_new_version_of_the_chart_alone_makes_no_new_pods(release):
    for owner, pod in pods(release):
        assert "helm.sh/chart" not in labels_of(pod), owner["metadata"]["name"]
        # What `sabueso doctor` compares is the image's tag, not the chart's appVersion.
        if "app.kubernetes.io/version" in labels_of(pod):
            (container,) = containers(pod)
            assert container["image"].endswith(f":{labels_of(pod)['app.kubernetes.io/version']}")


def test_pods_of_services_say_their_version():
    tags = {"image": {"tag": "1.2.3_"}, "services": {"retrieval": {"image": {"digest": "sha256:" + "ab" * 32}}}}
    for name, one in of_kind(render(**GOOD, **tags), "Deployment").items():
        version = labels_of(one["spec"]["template"]).get("app.kubernetes.io/version")
        assert version == (None if name == "try-retrieval" else "1.2.3"), name


def test_only_what_is_not_read_again_makes_new_pods():
    """Tenants' files are followed by the services; the try-out's passwords are read once."""
    files = [{"tenants": {"files": {"a.yaml": text}}} for text in ("id: a", "id: b")]
    inside = {key: value for key, value in BUILT_IN.items() if key != "tenants"}
    first, second = (of_kind(render(**inside, **one), "Deployment") for one in files)
    assert first == second
    other = of_kind(render(**inside | {"tryout": {"enabled": True, "seed": SEED[::-1]}}, **files[0]), "Deployment")
    for name, deployment in first.items():
        mine, theirs = (one["spec"]["template"]["metadata"]["annotations"] for one in (deployment, other[name]))
        assert mine["checksum/config"] != theirs["checksum/config"]


def test_a_release_name_that_names_cannot_hold_is_refused():
    import helm_python

    with helm_python.Chart.load("charts/sabueso") as chart:
        for name in ("a" * 35, "1st", "a.b"):
            with pytest.raises(Exception, match="release name"):
                chart.render(GOOD, name=name, namespace="default")
        longest = chart.render(GOOD | {"evaluation": TAKEN_IN["evaluation"]}, name="a" * 34, namespace="default")
    for line in "".join(longest.values()).splitlines():
        if line.startswith("  name: "):
            assert len(line.removeprefix("  name: ")) <= 63
