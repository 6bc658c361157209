"""Builds the programs of a Kubernetes control plane from Go modules, once; no package index has them built."""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_MODULES = Path(__file__).parent / "cluster_build"
HOW = (
    "A cluster of our own is built with Go 1.24 or newer (it fetches 1.26 itself): put `go` on the PATH, or name a "
    "cluster that may be filled and emptied: make test-cluster CLUSTER=its-kubeconfig"
)
# Module folder and package of each program. The versions are those of the folders' go.mod.
_PACKAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "etcd": ("kubernetes", "go.etcd.io/etcd/server/v3"),
        "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
        "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
        "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    }
)
_VERSION = "k8s.io/component-base/version"
# Of one program; the first that is built compiles what they share.
_SECONDS = 5400


def version() -> str:
    """Of Kubernetes, such as v1.37.2."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (_MODULES / "kubernetes/go.mod").read_text())
    if found is None:
        raise ValueError("cluster_build/kubernetes/go.mod requires no k8s.io/kubernetes")
    return found[1]


def folder() -> Path:
    """Where the built programs are kept: another folder for other modules or another kind of machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parts = [path.read_bytes() for path in sorted(_MODULES.glob("*/go.*"))]
    parts += [repr(sorted(_PACKAGES.items())).encode(), platform.system().encode()]
    digest = hashlib.sha256(b"\0".join([*parts, platform.machine().encode()])).hexdigest()
    return cache / "sabueso" / "cluster" / f"{version()}-{digest[:8]}"


def find() -> Mapping[str, Path] | None:
    """Path of each program, or None where one is missing."""
    paths = {name: folder() / name for name in _PACKAGES}
    return paths if all(path.exists() for path in paths.values()) else None


def go() -> str | None:
    """The Go command, also where its installer puts it."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def build() -> Mapping[str, Path]:
    """Path of each program; those that are missing are built, which takes long the first time.

    Raises FileNotFoundError without Go, CalledProcessError where a build fails (Go has said why on the way).
    """
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    # Two at once would do all the work twice.
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in _PACKAGES:
            if not (place / name).exists():
                _build(name, place)
    return {name: place / name for name in _PACKAGES}


def _build(name: str, place: Path) -> None:
    program = go()
    if program is None:
        raise FileNotFoundError(HOW)
    module, package = _PACKAGES[name]
    # Without these the server would say that it is v0.0.0, which charts with a `kubeVersion` refuse.
    major, minor, _ = version().removeprefix("v").split(".")
    stamps = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    flags = ["-s", "-w", *(part for key, value in stamps.items() for part in ("-X", f"{_VERSION}.{key}={value}"))]
    print(f"• building {name} {version() if module == 'kubernetes' else ''}".rstrip(), flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        built = Path(scratch) / name
        command = [program, "build", "-C", str(_MODULES / module), "-trimpath", "-buildvcs=false"]
        command += [f"-ldflags={' '.join(flags)}", "-o", str(built), package]
        if nice := shutil.which("nice"):
            command = [nice, "-n", "10", *command]
        subprocess.run(command, check=True, env=_environment(), timeout=_SECONDS)
        # In one step: a killed build leaves none or a whole one.
        built.replace(place / name)
    print(f"  {time.monotonic() - began:.0f} s", flush=True)


def _environment() -> dict[str, str]:
    # A workspace around this folder must not lend its versions.
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
