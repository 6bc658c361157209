"""Definitions of the custom resources that the charts can make, from the Go modules of the projects that own them."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from local import cluster_programs

_SECONDS = 900


@dataclass(frozen=True)
class _Module:
    """Where a project keeps its definitions. `digest` is that of go.sum, over all files of the module."""

    path: str
    version: str
    digest: str
    folder: str
    names: tuple[str, ...]


_MODULES = (
    _Module(
        "sigs.k8s.io/gateway-api",
        "v1.6.3",
        "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=",
        "config/crd/standard",
        (
            "gateway.networking.k8s.io_gatewayclasses",
            "gateway.networking.k8s.io_gateways",
            "gateway.networking.k8s.io_grpcroutes",
            "gateway.networking.k8s.io_httproutes",
        ),
    ),
    _Module(
        "github.com/kedacore/keda/v2",
        "v2.21.0",
        "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
        "config/crd/bases",
        ("keda.sh_scaledobjects", "keda.sh_triggerauthentications"),
    ),
    # Newer ones have only their Go types in a module.
    _Module(
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        "example/prometheus-operator-crd",
        (
            "monitoring.coreos.com_podmonitors",
            "monitoring.coreos.com_prometheusrules",
            "monitoring.coreos.com_servicemonitors",
        ),
    ),
    _Module(
        "github.com/ray-project/kuberay/ray-operator",
        "v1.6.1",
        "h1:IMtV0QW8AxGp4/CbPLd/olXBBxpUNQQr1n4Mu59khl4=",
        "config/crd/bases",
        ("ray.io_rayservices", "ray.io_rayjobs"),
    ),
)


def folder() -> Path:
    """Where they are kept, one YAML file each: beside the programs; in another place after any change of the above."""
    digest = hashlib.sha256(repr(_MODULES).encode()).hexdigest()[:8]
    return cluster_programs.folder().parent / f"definitions-{digest}"


def fetch() -> Path:
    """The folder, filled. Raises FileNotFoundError without Go, ValueError where a module is not what it was."""
    place = folder()
    if place.exists():
        return place
    program = cluster_programs.go()
    if program is None:
        raise FileNotFoundError(cluster_programs.HOW)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        filled = Path(scratch) / "definitions"
        filled.mkdir()
        for module in _MODULES:
            print(f"• fetching the custom resources of {module.path} {module.version}", flush=True)
            _copy(program, module, filled)
        # In one step: a killed run leaves none or all.
        filled.replace(place)
    return place


def _copy(program: str, module: _Module, place: Path) -> None:
    command = [program, "mod", "download", "-json", f"{module.path}@{module.version}"]
    # Outside of a module of ours, whose versions it would change.
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        raise ValueError(f"{module.path} {module.version}: {(done.stderr or done.stdout).strip()}")
    found = json.loads(done.stdout)
    if found["Sum"] != module.digest:
        raise ValueError(f"{module.path} {module.version} is {found['Sum']} and not {module.digest}")
    for name in module.names:
        shutil.copyfile(Path(found["Dir"]) / module.folder / f"{name}.yaml", place / f"{name}.yaml")
