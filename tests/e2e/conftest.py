"""The whole stack, as `make up` starts it, on ports and in a folder of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from local import ports


@dataclass(frozen=True)
class Stack:
    """A running stack. `env` is what `.sabueso/env` says."""

    home: Path
    env: dict[str, str]

    @property
    def url(self) -> str:
        return self.env["SABUESO_URL"]

    def control(self, *words: str) -> str:
        """supervisorctl, to stop and start single services."""
        tool = Path(sys.executable).with_name("supervisorctl")
        command = [str(tool), "-c", str(self.home / "supervisord.conf"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def pid(self, service: str) -> int:
        return int(self.control("pid", service))

    def log(self, service: str) -> str:
        return (self.home / "logs" / f"{service}.log").read_text(errors="replace")


def run_stack(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m local.stack …`, as make calls it."""
    return subprocess.run(
        [sys.executable, "-m", "local.stack", *words],
        env=os.environ | {"SABUESO_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def fresh_home(folder: Path) -> Path:
    """A folder like `.sabueso` on a new machine, but for the model, which set-up has made."""
    home = folder / "sabueso"
    home.mkdir()
    (home / "models").symlink_to(Path(".sabueso/models").resolve())
    return home


def read_env(home: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (home / "env").read_text().splitlines())


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = fresh_home(tmp_path_factory.mktemp("stack"))
    port = ports.pick(1, ports.random_start())[0]
    started = run_stack(home, "up", "--detach", "--port", str(port))
    assert started.returncode == 0, started.stdout + started.stderr
    yield Stack(home, read_env(home))
    stopped = run_stack(home, "down")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    shutil.rmtree(home, ignore_errors=True)
