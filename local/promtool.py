"""Finds promtool, which checks and tests alert rules, or fetches Debian's without being root; no wheel carries it."""

import shutil
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(".sabueso/tools")
_PROGRAM = FOLDER / "usr/bin/promtool"
HOW = "The tests of alert rules need promtool: `make promtool` (Debian, Ubuntu), or put it on the PATH."
_SECONDS = 300


def find() -> str | None:
    """Path of the program, or None."""
    return shutil.which("promtool") or (str(_PROGRAM.resolve()) if _PROGRAM.exists() else None)


def main() -> None:
    """Makes sure that there is one; says so where none can be had, which is no failure: its tests are skipped."""
    if find():
        return
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        print(HOW)
        return
    print("• fetching promtool for the tests of alert rules")
    if not _fetch():
        print(HOW)


def _fetch() -> bool:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        if not _run(["apt-get", "-qq", "download", "prometheus"], folder):
            return False
        for package in Path(folder).glob("prometheus_*.deb"):
            if not _run(["dpkg-deb", "-x", package.name, "unpacked"], folder):
                return False
        found = Path(folder, "unpacked/usr/bin/promtool")
        if not found.exists():
            return False
        _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        # In one step: a killed run leaves none or a whole one.
        found.replace(_PROGRAM)
    return True


def _run(command: list[str], folder: str) -> bool:
    try:
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
