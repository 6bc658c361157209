"""What starts a cluster on this machine: it keeps what is built, says what fails, ends what it started and no more."""

import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from local import cluster, cluster_definitions, cluster_identities, cluster_programs


def test_the_version_is_that_of_the_modules_that_are_built():
    assert re.fullmatch(r"v1\.\d+\.\d+", cluster_programs.version())


def test_all_modules_of_kubernetes_are_of_one_version():
    text = Path("local/cluster_build/kubernetes/go.mod").read_text()
    minor, patch = cluster_programs.version().split(".")[1:]
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert {(old, version) for old, _, version in replaced} == {(old, f"v0.{minor}.{patch}") for old, _, _ in replaced}
    assert all(old == new for old, new, _ in replaced)


def test_programs_are_kept_in_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cluster_programs.folder().parent == tmp_path / "sabueso" / "cluster"
    assert cluster_programs.find() is None
    cluster_programs.folder().mkdir(parents=True)
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"):
        (cluster_programs.folder() / name).touch()
    found = cluster_programs.find()
    assert found is not None
    assert cluster_programs.build() == found
    assert cluster_definitions.folder().parent == cluster_programs.folder().parent


def test_a_kubeconfig_names_the_server_and_keeps_the_key_to_its_owner(tmp_path):
    cluster_identities.prepare(tmp_path / "pki", "https://127.0.0.1:1")
    config = json.loads((tmp_path / "pki" / "admin.kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    for key in ("client-certificate", "client-key"):
        assert Path(config["users"][0]["user"][key]).exists()
    assert (tmp_path / "pki").stat().st_mode & 0o077 == 0


def test_stopping_ends_what_was_started_and_spares_who_has_its_number_now(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    ours, others = subprocess.Popen(command), subprocess.Popen(command)
    try:
        begun = psutil.Process(ours.pid).create_time()
        earlier = psutil.Process(others.pid).create_time() - 100
        marks = {"etcd": [ours.pid, begun], "kwok": [others.pid, earlier]}
        (tmp_path / "processes.json").write_text(json.dumps(marks))
        assert cluster.stop(tmp_path)
        assert not psutil.pid_exists(ours.pid)
        assert others.poll() is None
        assert not cluster.stop(tmp_path)
    finally:
        for process in (ours, others):
            process.kill()
            process.wait(10)


def test_a_program_that_does_not_start_is_named_with_the_end_of_its_log(tmp_path):
    refusing = tmp_path / "etcd"
    refusing.write_text("#!/bin/sh\necho no disk is left >&2\nexit 1\n")
    refusing.chmod(0o755)
    sleeping = tmp_path / "kube-apiserver"
    sleeping.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeping.chmod(0o755)
    plane = cluster.ControlPlane(tmp_path / "home", {"etcd": refusing, "kube-apiserver": sleeping})
    with pytest.raises(TimeoutError, match=r"etcd ended.*\nno disk is left"):
        plane.start()
    assert not (tmp_path / "home" / "processes.json").exists()


def test_simulated_pods_run_end_and_go():
    stages = list(yaml.safe_load_all(Path("local/cluster_stages.yaml").read_text()))
    assert [stage["metadata"]["name"] for stage in stages] == ["pod-runs", "pod-ends", "pod-goes"]
    assert {stage["spec"]["resourceRef"]["kind"] for stage in stages} == {"Pod"}
