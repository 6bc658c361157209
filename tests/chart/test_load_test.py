"""The load test as Jobs beside the release, as Helm renders it."""

import argparse
import json
import os
import subprocess
from pathlib import Path

import pytest

from loadtests.__main__ import FILES
from loadtests.offering.options import add_options
from tests.chart.cluster_facts import GOOD, SEED, check_schemas, documents, of_kind, pods, render, selects, texts

TEST = {"enabled": True, "existingSecret": "load-keys"}
ALONE, DISTRIBUTED = {}, {"workers": 3}


def rendered(**more):
    return render(**GOOD, loadTest=TEST | more)


@pytest.fixture(scope="module")
def distributed():
    return rendered(**DISTRIBUTED)


def jobs(manifests):
    """(the Job that judges, that of the workers or None)."""
    found = of_kind(manifests, "Job")
    workers = [job for name, job in found.items() if name.endswith("-worker")]
    (judging,) = [job for job in found.values() if job not in workers]
    return judging, (workers or [None])[0]


def container(job):
    (found,) = job["spec"]["template"]["spec"]["containers"]
    return found


def test_without_being_asked_for_nothing_is_put_under_load():
    assert not of_kind(render(**GOOD), "Job")
    assert "load-test" not in str(render(**GOOD))


@pytest.mark.parametrize("more", [ALONE, DISTRIBUTED])
def test_its_manifests_fit_the_schema_of_kubernetes(more):
    check_schemas(rendered(**more), ["1.30", "1.37"])


def test_one_pod_does_all_where_there_are_no_workers():
    judging, workers = jobs(rendered())
    assert workers is None
    assert container(judging)["args"][1:] == ["slo"]
    assert "ports" not in container(judging)


def test_a_master_waits_for_as_many_workers_as_there_are(distributed):
    judging, workers = jobs(distributed)
    assert container(judging)["args"][1:] == ["slo", "--master", "--expect-workers", "3"]
    assert (workers["spec"]["completions"], workers["spec"]["parallelism"]) == (3, 3)
    assert (judging["spec"]["completions"], judging["spec"]["parallelism"]) == (1, 1)


def test_workers_find_the_master_of_their_own_run(distributed):
    """While one run takes the place of another, both masters are there."""
    judging, workers = jobs(distributed)
    *_, host = container(workers)["args"]
    service = of_kind(distributed, "Service")[host]["spec"]
    labels = judging["spec"]["template"]["metadata"]["labels"]
    assert selects({"matchLabels": service["selector"]}, labels)
    other, _ = jobs(rendered(**DISTRIBUTED, run="2"))
    assert not selects({"matchLabels": service["selector"]}, other["spec"]["template"]["metadata"]["labels"])
    assert not selects({"matchLabels": service["selector"]}, workers["spec"]["template"]["metadata"]["labels"])
    (port,) = service["ports"]
    assert port["targetPort"] == container(judging)["ports"][0]["name"]


@pytest.mark.parametrize(
    "changed",
    [{"run": "2"}, {"file": "soak"}, {"seconds": 30}, {"rate": 2}, {"workers": 1}, {"image": {"tag": "2"}}],
)
def test_what_is_changed_makes_another_job_as_none_can_be_changed(changed):
    assert jobs(rendered(**changed))[0]["metadata"]["name"] != jobs(rendered())[0]["metadata"]["name"]


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"services": {"gateway": {"replicas": 5}}},
        {"alerts": {"enabled": True}},
        {"services": {"gateway": {"port": 8443}}},
        {"pods": {"labels": {"team": "a"}}},
        {"pods": {"env": {"SSL_CERT_FILE": "/a"}}},
        {"image": {"pullSecrets": [{"name": "a"}]}},
    ],
)
def test_a_job_keeps_its_name_exactly_where_it_stays_the_same(elsewhere):
    before, after = jobs(rendered())[0], jobs(render(**GOOD, loadTest=TEST, **elsewhere))[0]
    same = before["spec"]["template"]["spec"] == after["spec"]["template"]["spec"] and all(
        before["spec"]["template"]["metadata"]["labels"].get(key) == value
        for key, value in after["spec"]["template"]["metadata"]["labels"].items()
        if not key.endswith("/component")
    )
    assert same == (before["metadata"]["name"] == after["metadata"]["name"])


def test_a_failed_test_is_not_tried_again_and_a_finished_one_not_repeated_by_an_upgrade(distributed):
    for job in jobs(distributed):
        assert job["spec"]["backoffLimit"] == 0
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
        assert job["spec"]["activeDeadlineSeconds"] == 7200
        # Helm would make again what a controller took away.
        assert "ttlSecondsAfterFinished" not in job["spec"]


def test_keys_come_from_the_secret_and_only_the_first_must_be_there(distributed):
    for job in jobs(distributed):
        environment = {one["name"]: one for one in container(job)["env"]}
        assert environment["SABUESO_URL"]["value"] == "http://try-gateway:8080"
        keys = {name: one["valueFrom"]["secretKeyRef"] for name, one in environment.items() if "valueFrom" in one}
        assert keys == {
            "SABUESO_API_KEY": {"name": "load-keys", "key": "api-key"},
            "SABUESO_LOAD_SECOND_API_KEY": {"name": "load-keys", "key": "second-api-key", "optional": True},
            "SABUESO_LOAD_NOISY_API_KEY": {"name": "load-keys", "key": "noisy-api-key", "optional": True},
        }


def test_the_try_out_is_put_under_load_with_its_own_key():
    manifests = render(tryout={"enabled": True, "seed": SEED}, loadTest={"enabled": True})
    key = next(one for one in container(jobs(manifests)[0])["env"] if one["name"] == "SABUESO_API_KEY")
    name, entry = key["valueFrom"]["secretKeyRef"]["name"], key["valueFrom"]["secretKeyRef"]["key"]
    assert entry in of_kind(manifests, "Secret")[name]["stringData"]


def test_it_reaches_the_gateway_and_nothing_else(distributed):
    policies = of_kind(distributed, "NetworkPolicy")
    master, worker = (policies[job["metadata"]["name"]]["spec"] for job in jobs(distributed))
    for policy in (master, worker):
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        dns, gateway = policy["egress"][:2]
        assert {port["port"] for port in dns["ports"]} == {53}
        assert [port["port"] for port in gateway["ports"]] == [8080]
        assert gateway["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "gateway"
    assert len(master["egress"]) == 2
    ((to_master,), (from_worker,)) = worker["egress"][2:], master["ingress"]
    assert to_master["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "load-test"
    assert from_worker["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "load-test-worker"
    assert worker["ingress"] == []


def test_a_gateway_that_is_closed_to_others_lets_it_in():
    manifests = render(**GOOD, loadTest=TEST | DISTRIBUTED, networkPolicy={"clients": [{"podSelector": {}}]})
    peers = [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
        for rule in of_kind(manifests, "NetworkPolicy")["try-gateway"]["spec"]["ingress"]
        for peer in rule.get("from", ())
        if peer.get("podSelector", {}).get("matchLabels")
    ]
    assert {"load-test", "load-test-worker"} <= set(peers)


def test_results_go_to_a_claim_where_one_is_named_and_never_to_the_root():
    volumes = jobs(rendered())[0]["spec"]["template"]["spec"]["volumes"]
    assert "emptyDir" in next(one for one in volumes if one["name"] == "results")
    judging, workers = jobs(rendered(resultsClaim="kept", **DISTRIBUTED))
    volumes = judging["spec"]["template"]["spec"]["volumes"]
    claim = {"claimName": "kept"}
    assert next(one for one in volumes if one["name"] == "results")["persistentVolumeClaim"] == claim
    assert {one["name"] for one in workers["spec"]["template"]["spec"]["volumes"]} == {"tmp"}


@pytest.mark.parametrize("status", [0, 1, 2])
@pytest.mark.parametrize("reported", [True, False])
def test_the_script_shows_the_summary_and_ends_as_the_test_did(tmp_path, status, reported):
    """The script itself, with a `python` in its place that notes how it was called."""
    judging, _ = jobs(rendered(seconds=30, rate=2, existingConfigMap="plan", **DISTRIBUTED))
    found = container(judging)
    report = 'mkdir -p "$4"; echo "# It held" > "$4/report.md"' if reported else ":"
    (tmp_path / "python").write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/call\n{report}\nexit {status}\n')
    (tmp_path / "python").chmod(0o755)
    arguments = [found["args"][0].replace("/results/", f"{tmp_path}/results/"), *found["args"][1:]]
    done = subprocess.run(
        [*found["command"], *arguments],
        env={"PATH": f"{tmp_path}:{os.defpath}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == status
    assert done.stdout == ("# It held\n" if reported else "")
    call = Path(tmp_path, "call").read_text().split()
    assert call[:3] == ["/app", "slo", "--out"]
    assert call[3].startswith(f"{tmp_path}/results/slo-20")
    assert " ".join(call[4:]) == (
        "--seconds 30 --rate 2 --plan=/plan/slo.yaml --questions=/plan/questions.yaml --master --expect-workers 3"
    )


def test_the_files_that_may_be_chosen_are_those_that_there_are():
    schema = json.loads(Path("charts/sabueso/values.schema.json").read_text())
    chosen = schema["properties"]["loadTest"]["properties"]["file"]["enum"]
    assert tuple(chosen) == FILES
    assert all(Path(f"loadtests/{name}.py").is_file() for name in FILES)


@pytest.mark.parametrize("more", [ALONE, DISTRIBUTED])
def test_every_option_is_one_that_the_load_tests_have(more):
    parser = argparse.ArgumentParser()
    add_options(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    # Locust's own, written down: importing it would patch the sockets of this process.
    known |= {"--master", "--worker", "--master-host", "--expect-workers"}
    for job in filter(None, jobs(rendered(seconds=30, rate=2, existingConfigMap="plan", **more))):
        given = {word.split("=")[0] for word in " ".join(container(job)["args"]).split() if word.startswith("--")}
        assert given <= known


def test_every_name_is_short_enough_for_the_longest_release():
    manifests = documents(texts(release="r" * 34, **GOOD, loadTest=TEST | DISTRIBUTED))
    for owner, _ in pods(manifests):
        assert len(owner["metadata"]["name"]) <= 63
