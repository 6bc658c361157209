"""The recipe of the images, the workflows that publish them, and what is taken out of a base."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local import clients, image_engine, image_rootfs, images
from local.image_engine import Engine
from local.images import SERVICES, image_of
from local.programs import GRPC_SERVICES

_RECIPE = Path("services/Dockerfile").read_text()
_WORKFLOWS = sorted(Path(".github/workflows").glob("*.yaml"))
_PROJECT = tomllib.loads(Path("pyproject.toml").read_text())
# Where the images run: the Python of the base, on both processors, and the oldest that may be one.
_PLACES = [
    {
        "implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix",
        "sys_platform": "linux", "platform_system": "Linux", "platform_machine": machine, "extra": "",
        "python_version": python.rpartition(".")[0], "python_full_version": python,
    }
    for python in ("3.13.9", "3.11.2") for machine in ("x86_64", "aarch64")
]  # fmt: skip


def locked(file, place):
    """Version of each package that a lock file pins there. Each is pinned once, and by hash."""
    found = {}
    for entry in re.split(r"\n(?=\S)", Path(file).read_text().strip()):
        requirement = Requirement(entry.split(" \\\n")[0])
        assert "--hash=sha256:" in entry, requirement.name
        if requirement.marker is None or requirement.marker.evaluate(place):
            (one,) = requirement.specifier
            assert found.setdefault(canonicalize_name(requirement.name), one.version) == one.version
            assert one.operator == "=="
    return found


def asked(groups):
    """What `uv pip install -r pyproject.toml --group …` asks for by itself, without what that needs in turn."""
    table = _PROJECT["dependency-groups"]
    lines = [*_PROJECT["project"]["dependencies"], *(line for group in groups for line in table[group])]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def groups_of(image):
    """Groups of pyproject.toml that the recipe installs into an image."""
    service, extra = images.RAY_IMAGES.get(image, (image, ""))
    more = dict(re.findall(r'WITH_(\w+)="([^"]*)"', _RECIPE))
    return [service, *more.get(service, "").split(), *extra.split()]


def workflow(name):
    return yaml.safe_load(Path(".github/workflows", name).read_text())


def steps(flow):
    return [step for job in flow["jobs"].values() for step in job["steps"]]


def test_every_service_has_an_image_and_packages_of_its_own():
    folders = {path.parent.name for path in Path("services").glob("*/server.py")} - {"runtime"}
    assert set(SERVICES) == folders | {"cli", "loadtests"}
    assert {*GRPC_SERVICES, "gateway"} <= set(SERVICES)
    assert set(SERVICES) <= set(_PROJECT["dependency-groups"])


def test_an_image_is_named_as_the_chart_names_it():
    assert image_of("sql_tool", "registry.example/sabueso", "1.2") == "registry.example/sabueso-sql-tool:1.2"


def test_the_recipe_takes_packages_by_hash_from_the_lock_only():
    steps_of_it = re.split(r"\n(?=[A-Z]+ )", _RECIPE.replace("\\\n", " "))
    installs = [step for step in steps_of_it if "uv pip install" in step]
    assert len(installs) == 4
    for install in installs:
        assert install.count("-c requirements.lock") == install.count("uv pip install")
    # Ray is chosen by a group, and groups are installed in one place.
    assert [install.count("-c ray.lock") for install in installs] == ["--group" in step for step in installs]


@pytest.mark.parametrize("place", _PLACES, ids=lambda one: f"{one['python_full_version']}-{one['platform_machine']}")
def test_the_two_locks_pin_each_package_once_and_together_all_that_an_image_asks_for(place):
    ours, rays = locked("requirements.lock", place), locked("ray.lock", place)
    assert not ours.keys() & rays.keys()
    assert "ray" in rays
    for image in (*SERVICES, *images.RAY_IMAGES):
        assert asked(groups_of(image)) <= ours.keys() | rays.keys(), image
        # Without Ray the second lock changes nothing.
        assert image in images.RAY_IMAGES or asked(groups_of(image)) <= ours.keys()


@pytest.mark.slow
def test_what_ray_and_its_extras_need_is_in_the_two_locks_at_versions_that_ray_takes():
    """Of the packages as installed for the tests (local/clients.py), down to the last."""
    if not (clients.FOLDER / "ray").exists():
        pytest.skip("Ray is not installed: python -m local.clients ray")
    place = _PLACES[2]
    pinned = locked("requirements.lock", place) | locked("ray.lock", place)
    folders = [str(clients.FOLDER / "ray"), *sys.path]
    waiting, seen = [Requirement("ray[data,serve]")], set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        assert wanted.specifier.contains(pinned[name], prereleases=True), f"{wanted} and {pinned[name]}"
        for extra in {"", *wanted.extras} - {extra for one, extra in seen if one == name}:
            seen.add((name, extra))
            for line in next(iter(metadata.distributions(name=name, path=folders))).requires or ():
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate(place | {"extra": extra}):
                    waiting.append(needed)
    assert len({name for name, _ in seen}) > 50


def test_an_image_with_ray_has_what_starts_ray_and_the_code_of_its_services():
    programs = _RECIPE.partition("AS programs")[2].partition("FROM scratch")[0]
    assert "ray) echo bash ;;" in programs
    assert "bash" in image_rootfs.GONE
    assert "exec python -m ray.scripts.scripts" in programs
    for service, extra in images.RAY_IMAGES.values():
        assert service in SERVICES
        assert "ray" in extra.split()
    # Whatever a run of bulk indexing starts, its encoders as well.
    bulk = groups_of("bulk")
    assert {"cli", "ingestion", "embedding"} <= set(bulk)
    for part in set(bulk) - {"ray"}:
        assert Path("services", part).is_dir()


def test_ray_s_manifests_name_images_that_can_be_built_and_commands_that_are_in_them():
    for name, image in {"embedding": "embedding-ray", "reranking": "reranking-ray", "bulk-index": "bulk"}.items():
        text = Path(f"k8s/ray/{name}.yaml").read_text()
        assert set(re.findall(r"registry\.example\.internal/sabueso-([\w-]+):", text)) == {image}
        assert image in images.RAY_IMAGES
    job, *_ = yaml.safe_load_all(Path("k8s/ray/bulk-index.yaml").read_text())
    command, *_ = job["spec"]["entrypoint"].split()
    assert f'exec python /app "$@"\\n\' > {command};' in _RECIPE


@pytest.mark.parametrize("name", ["embedding", "reranking", "bulk-index"])
def test_no_probe_of_ray_s_pods_calls_a_program_of_the_image(name):
    """KubeRay's own do, those of wget and grep, where a container has none."""
    first, *_ = yaml.safe_load_all(Path(f"k8s/ray/{name}.yaml").read_text())
    cluster = first["spec"].get("rayClusterConfig") or first["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        for probe in ("livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["path"].endswith("healthz")


def test_the_recipe_ends_as_a_user_without_rights_and_names_no_mirror():
    last = _RECIPE.rpartition("FROM scratch")[2]
    assert "USER 65532:65532" in last
    assert 'ENTRYPOINT ["python", "/app"]' in last
    assert "RUN" not in last
    assert not re.search(r"https?://", _RECIPE)


def test_the_page_describes_every_argument_and_lists_every_image():
    page = Path("docs/images.md").read_text()
    for name in set(re.findall(r"^ARG (\w+)", _RECIPE, re.MULTILINE)):
        assert f"`{name}`" in page
    for service in SERVICES:
        assert re.search(rf"^\| {service} \| \d+ \| \d+ \|$", page, re.MULTILINE), service


def test_what_is_not_named_never_reaches_a_build():
    lines = [line for line in Path(".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", _RECIPE, re.MULTILINE)
    named = {word for line in copied for word in line.split()}
    allowed = [line[1:] for line in lines if line.startswith("!")]
    assert all(
        any(word == one or word.startswith(f"{one}/") or one.startswith(f"{word}/") for one in allowed)
        for word in named
    )


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_pin_actions_by_hash_hold_no_secret_and_may_only_read(path):
    text = path.read_text()
    uses = re.findall(r"uses: (\S+)(.*)", text)
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert "secrets." not in text
    flow = yaml.safe_load(text)
    assert flow["permissions"] == {"contents": "read"}
    for job in flow["jobs"].values():
        assert job["timeout-minutes"]


def test_the_workflow_builds_every_image_for_both_processors_with_sbom_and_provenance():
    flow = workflow("images.yaml")
    build, publish = flow["jobs"]["build"], flow["jobs"]["publish"]
    assert set(build["strategy"]["matrix"]["service"]) == set(publish["strategy"]["matrix"]["service"]) == set(SERVICES)
    assert {one["name"] for one in build["strategy"]["matrix"]["platform"]} == {"amd64", "arm64"}
    (made,) = (step["with"] for step in build["steps"] if "build-push-action" in step.get("uses", ""))
    assert made["sbom"] is True
    assert made["provenance"] == "mode=max"
    assert "rewrite-timestamp=true" in made["outputs"]
    names = set(re.findall(r"^ARG (\w+)", _RECIPE, re.MULTILINE))
    assert {line.split("=")[0] for line in made["build-args"].splitlines()} <= names
    assert flow["jobs"]["build"]["needs"] == "test"


def test_no_workflow_puts_what_a_stranger_writes_into_a_shell():
    for path in _WORKFLOWS:
        for step in steps(yaml.safe_load(path.read_text())):
            assert "${{" not in step.get("run", ""), f"{path.name}: {step['run']}"


@pytest.mark.parametrize("image", images.RAY_IMAGES)
def test_an_image_with_ray_is_built_when_asked_for_by_name_and_described(image):
    command = images.build_command(Engine(("podman",)), image, images.Recipe(), "", "0")
    service, groups = images.RAY_IMAGES[image]
    assert f"localhost/sabueso-{image}:dev" in command
    assert {f"SERVICE={service}", f"EXTRA_GROUPS={groups}"} <= set(command)
    assert image not in SERVICES
    assert f"python -m local.images build {image}" in Path("docs/ray.md").read_text()


def test_podman_is_given_limits_only_where_it_may_not_raise_them():
    limits = image_engine.limits(root=True, may_raise=False, files=1024)
    assert limits == ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
    assert image_engine.limits(root=True, may_raise=True, files=1024) == ()
    assert image_engine.limits(root=False, may_raise=False, files=1024) == ()


def test_mirrors_and_certificates_reach_a_build_as_secrets_that_are_gone_afterwards():
    environment = {
        "UV_DEFAULT_INDEX": "https://u:it's@mirror/simple",
        "SSL_CERT_FILE": "/etc/ssl/ca.pem",
        "HOME": "/",
    }
    with images.secrets(environment, index="") as options:
        assert options[2:] == ["--secret", "id=certificates,src=/etc/ssl/ca.pem"]
        path = Path(options[1].partition("src=")[2])
        assert path.stat().st_mode & 0o077 == 0
        text = path.read_text()
    assert "UV_DEFAULT_INDEX='https://u:it'\"'\"'s@mirror/simple'\n" in text
    assert "SSL_CERT_FILE=/run/secrets/certificates\n" in text
    assert "HOME" not in text
    assert not path.exists()


def test_the_address_in_pips_settings_is_uvs_too():
    with images.secrets({}, index="https://mirror/simple") as options:
        text = Path(options[1].partition("src=")[2]).read_text()
    assert text == "PIP_INDEX_URL=https://mirror/simple\nUV_DEFAULT_INDEX=https://mirror/simple\n"


def test_the_command_of_a_build_names_service_base_and_time():
    recipe = images.Recipe(base="mirror/python:3.13", tag="1.2", weights="mounted", arguments=("OCR_PACKAGES=",))
    command = images.build_command(
        Engine(("podman",), ("--ulimit", "nofile=9:9")), "sql_tool", recipe, "abc", "1700000000"
    )
    text = " ".join(command)
    for part in (
        "SERVICE=sql_tool",
        "BASE=mirror/python:3.13",
        "WEIGHTS=mounted",
        "REVISION=abc",
        "VERSION=1.2",
        "OCR_PACKAGES=",
    ):
        assert f"--build-arg {part}" in text
    assert "--tag localhost/sabueso-sql-tool:1.2" in text
    assert "--timestamp 1700000000" in text
    assert command[-1] == "."
    docker = images.build_command(Engine(("docker",)), "sql_tool", recipe, "", "1700000000")
    assert "SOURCE_DATE_EPOCH=1700000000" in docker
    assert "--timestamp" not in docker


@pytest.fixture
def root(tmp_path):
    """A Debian in small: two packages that share a file, Python with pip, a set-uid program."""
    for path, content in {
        "var/lib/dpkg/status": "Package: apt\nVersion: 1\n\nPackage: libc6\nVersion: 2\n",
        "var/lib/dpkg/info/apt.list": "/.\n/usr/bin\n/usr/bin/apt-get\n/usr/share/both\n",
        "var/lib/dpkg/info/apt.postinst": "",
        "var/lib/dpkg/info/libc6:amd64.list": "/usr/lib/libc.so\n/usr/share/both\n",
        "usr/bin/apt-get": "",
        "usr/share/both": "",
        "usr/lib/libc.so": "",
        "usr/share/doc/libc6/copyright": "LGPL",
        "usr/share/doc/libc6/changelog": "much",
        "usr/lib/python3.13/os.py": "",
        "usr/lib/python3.13/test/test_os.py": "",
        "usr/lib/python3.13/site-packages/pip/__init__.py": "",
        "usr/lib/python3.13/site-packages/pip-26.1.dist-info/METADATA": "",
        "usr/local/bin/pip3": "",
        "usr/local/bin/python3": "",
        "usr/bin/su": "",
        "var/cache/apt/pkgcache.bin": "",
        "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
        "etc/group": "root:x:0:\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "usr/bin/su").chmod(0o4755)
    return tmp_path


def test_a_stripped_base_keeps_libraries_licences_and_what_packages_share(root):
    image_rootfs.strip(root, root / "usr/lib/python3.13")
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert left == {
        "var/lib/dpkg/status", "var/lib/dpkg/info/libc6:amd64.list", "usr/share/both", "usr/lib/libc.so", "usr/bin/su",
        "usr/share/doc/libc6/copyright", "usr/lib/python3.13/os.py", "usr/local/bin/python3", "etc/passwd", "etc/group",
    }  # fmt: skip
    assert (root / "var/lib/dpkg/status").read_text() == "Package: libc6\nVersion: 2\n"
    assert (root / "usr/bin/su").stat().st_mode & 0o7777 == 0o755


def test_stripping_twice_is_stripping_once(root):
    for _ in range(2):
        image_rootfs.strip(root, root / "usr/lib/python3.13")
        image_rootfs.name_user(root)
    assert (root / "etc/passwd").read_text().count("nonroot") == 1
    assert (root / "etc/group").read_text().count("65532") == 1


def test_a_compiled_library_asks_no_clock(root):
    library = root / "usr/lib/python3.13"
    image_rootfs.compile_library(library)
    (compiled,) = (library / "__pycache__").glob("os.*.pyc")
    # PEP 552: 1 is by hash, 2 would be checked against the source.
    assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 1


def test_every_name_in_the_list_of_what_goes_is_there_once():
    assert len(set(image_rootfs.GONE)) == len(image_rootfs.GONE)
