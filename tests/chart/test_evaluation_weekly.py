"""The weekly run over golden sets, as Helm renders it."""

import re
import subprocess

import kubernetes_validate
import pytest

from tests.chart.cluster_facts import GOOD, of_kind, pods, render

WEEKLY = {
    "enabled": True,
    "sets": ["demo", "demo-tools"],
    "goldenClaim": "golden",
    "tenant": "demo",
    "existingSecret": "evals",
    "judge": {"url": "https://judge.test/v1", "name": "judge-70b"},
}


def rendered(**more):
    return render(**GOOD, evaluation={"weekly": WEEKLY | more})


@pytest.fixture(scope="module")
def manifests():
    return rendered()


def pod_of(manifests):
    (job,) = of_kind(manifests, "CronJob").values()
    return job, job["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_without_being_asked_for_nothing_runs():
    assert not {"CronJob", "PriorityClass"} & {one["kind"] for one in render(**GOOD)}


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_its_manifests_fit_the_schema_of_kubernetes(manifests, version):
    ours = [one for one in manifests if one["metadata"]["name"].endswith("evaluation-weekly")]
    assert len(ours) == 4
    for manifest in ours:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_it_runs_weekly_one_at_a_time_and_comes_to_an_end(manifests):
    job, _ = pod_of(manifests)
    assert job["spec"]["schedule"] == "0 3 * * 1"
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    assert job["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 14400


def test_what_was_measured_with_gaps_is_not_run_again_and_a_drained_node_costs_no_attempt(manifests):
    job, pod = pod_of(manifests)
    spec = job["spec"]["jobTemplate"]["spec"]
    gaps, drained = spec["podFailurePolicy"]["rules"]
    (container,) = pod["containers"]
    assert gaps["action"] == "FailJob"
    assert gaps["onExitCodes"] == {"containerName": container["name"], "operator": "In", "values": [2]}
    assert drained == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    # The API takes such a policy with this alone.
    assert pod["restartPolicy"] == "Never"
    assert spec["backoffLimit"] == 2


def test_it_yields_to_whatever_answers_people(manifests):
    _, pod = pod_of(manifests)
    (priority,) = of_kind(manifests, "PriorityClass").values()
    assert pod["priorityClassName"] == priority["metadata"]["name"] == "default-try-evaluation-weekly"
    assert priority["value"] < 0
    assert priority["preemptionPolicy"] == "Never"
    assert not priority["globalDefault"]


def test_the_pod_is_restricted(manifests):
    """As the `restricted` level of Kubernetes' pod security standards has it."""
    _, pod = pod_of(manifests)
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert container["resources"]["limits"]["memory"]
    assert {volume["name"] for volume in pod["volumes"]} == {"tmp", "golden", "runs"}


def test_results_are_kept_in_postgresql_and_reports_where_they_are_wanted(manifests):
    _, pod = pod_of(manifests)
    (container,) = pod["containers"]
    environment = {one["name"]: one for one in container["env"]}
    assert environment["SABUESO_EVALS_STORE"]["valueFrom"] == {"secretKeyRef": {"name": "evals", "key": "store"}}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["golden"]["persistentVolumeClaim"] == {"claimName": "golden", "readOnly": True}
    own = volumes["runs"]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert own == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    _, pod = pod_of(rendered(runsClaim="reports", storageClass="fast"))
    (runs,) = (one for one in pod["volumes"] if one["name"] == "runs")
    assert runs["persistentVolumeClaim"] == {"claimName": "reports"}


def test_no_claim_of_the_release_waits_for_the_first_run(manifests):
    """`helm install --wait` wants each claim bound, and many classes bind one when its first pod comes: on Monday."""
    used = {
        volume["persistentVolumeClaim"]["claimName"]
        for owner, pod in pods(manifests)
        if owner["kind"] != "CronJob"
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    }
    assert set(of_kind(manifests, "PersistentVolumeClaim")) <= used


def test_no_secret_is_written_out(manifests):
    _, pod = pod_of(manifests)
    for one in pod["containers"][0]["env"]:
        assert ("valueFrom" in one) == one["name"].endswith(("KEY", "STORE", "DATABASE")), one["name"]


def test_it_calls_the_gateway_the_judge_and_postgresql_and_is_called_by_nobody(manifests):
    policy = of_kind(manifests, "NetworkPolicy")["try-evaluation-weekly"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    dns, gateway, others = policy["egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert gateway["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "gateway"
    assert [port["port"] for port in others["ports"]] == [443, 5432, 8000]
    assert [port["port"] for port in gateway["ports"]] == [8080]
    _, pod = pod_of(manifests)
    selector = policy["podSelector"]["matchLabels"]
    (job,) = of_kind(manifests, "CronJob").values()
    labels = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    assert pod["serviceAccountName"] in of_kind(manifests, "ServiceAccount")


def test_a_gateway_at_another_port_is_found():
    manifests = render(**GOOD, evaluation={"weekly": WEEKLY}, services={"gateway": {"port": 8443}})
    _, pod = pod_of(manifests)
    (url,) = (one["value"] for one in pod["containers"][0]["env"] if one["name"] == "SABUESO_URL")
    policy = of_kind(manifests, "NetworkPolicy")["try-evaluation-weekly"]["spec"]
    assert url == "http://try-gateway:8443"
    assert [port["port"] for port in policy["egress"][1]["ports"]] == [8443]


def test_without_a_judge_its_variables_are_not_there():
    _, pod = pod_of(rendered(judge={"url": "", "name": ""}))
    assert not [one for one in pod["containers"][0]["env"] if "JUDGE" in one["name"]]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({}, 0),
        ({"demo": 2}, 2),
        ({"demo-tools": 1}, 1),
        ({"demo": 1, "demo-tools": 2}, 1),
        ({"demo": 2, "demo-tools": 1}, 1),
    ],
)
def test_the_script_runs_every_set_and_fails_when_one_failed(manifests, tmp_path, statuses, expected):
    """The script itself, with a `python` in its place that notes how it was called."""
    _, pod = pod_of(manifests)
    (container,) = pod["containers"]
    lines = [f'case "$*" in *"/golden/{name} "*) exit {status};; esac' for name, status in statuses.items()]
    (tmp_path / "python").write_text("\n".join(["#!/bin/sh", f'echo "$*" >> {tmp_path}/calls', *lines, "exit 0"]))
    (tmp_path / "python").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "EVALS_TENANT": "demo", "EVALS_NOISE": "3"}
    done = subprocess.run(container["command"] + container["args"], env=environment, check=False, timeout=60)
    assert done.returncode == expected
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [re.findall(r"/golden/\S+", call) for call in calls] == [["/golden/demo"], ["/golden/demo-tools"]]
    assert all("--tenant demo --noise 3" in call for call in calls)


def test_the_command_is_one_that_the_command_line_has(manifests):
    """`evals run` takes every option that the script names."""
    from typer.main import get_command

    from services.cli import evals

    _, pod = pod_of(manifests)
    script = pod["containers"][0]["args"][0]
    command = get_command(evals.app).commands["run"]
    options = {name for parameter in command.params for name in parameter.opts}
    variables = {name for parameter in command.params for name in [getattr(parameter, "envvar", None)] if name}
    assert {word for word in script.split() if word.startswith("--")} <= options
    given = {one["name"] for one in pod["containers"][0]["env"]}
    assert {
        "SABUESO_EVALS_STORE",
        "SABUESO_JUDGE_URL",
        "SABUESO_JUDGE_NAME",
        "SABUESO_JUDGE_API_KEY",
    } <= variables & given


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sets": []}, "sets"),
        ({"goldenClaim": ""}, "goldenClaim"),
        ({"tenant": ""}, "tenant"),
        ({"existingSecret": ""}, "existingSecret"),
        ({"sets": ["a b"]}, "sets"),
        ({"schedule": "weekly"}, "schedule"),
        ({"judge": {"url": "https://judge.test/v1", "name": ""}}, "judge.name"),
    ],
)
def test_what_is_missing_or_wrong_is_named(wrong, says):
    with pytest.raises(Exception, match=says):
        rendered(**wrong)
