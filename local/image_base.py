"""Makes a base image from Debian's packages, for machines that reach Debian but no registry of images."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from local.image_engine import Engine

SUITE = "trixie"
_MIRROR = "http://deb.debian.org/debian"
_PACKAGES = "python3,python3-venv,ca-certificates,tzdata,netbase"
_SECONDS = 900


class NoBase(SystemExit):
    """The base cannot be made; the message says what is missing."""


def make(engine: Engine, suite: str = SUITE) -> str:
    """Answers the image's name. Needs root and debootstrap. Raises NoBase."""
    if shutil.which("debootstrap") is None:
        raise NoBase("A base of one's own needs debootstrap: apt-get install debootstrap")
    name = f"localhost/sabueso-base:{suite}"
    with tempfile.TemporaryDirectory() as folder:
        root, archive = Path(folder, "root"), Path(folder, "root.tar")
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", suite, str(root), _MIRROR]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            raise NoBase(f"debootstrap failed:\n{done.stdout[-2000:]}")
        for path in (*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*_*")):
            path.unlink()
        subprocess.run(["tar", "--directory", str(root), "--create", "--file", str(archive), "."], check=True)
        engine.call("import", str(archive), name, seconds=_SECONDS)
    return name
