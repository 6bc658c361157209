"""Finds what builds and runs containers here, docker or podman, and says how it must be called on this machine."""

import os
import resource
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CAP_SYS_RESOURCE = 24
HOW = "Images need docker or podman. On Debian or Ubuntu: apt-get install podman buildah crun runc"


class NoEngine(Exception):
    """Nothing here can run a container; the message says what to install."""


@dataclass(frozen=True)
class Engine:
    """`command` with its global options, and what `build` and `run` need besides on this machine."""

    command: tuple[str, ...]
    limits: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Which of the two it is, `docker` or `podman`."""
        return self.command[0]

    def call(self, *arguments: str, seconds: float = 120, check: bool = True) -> str:
        """Standard output of a command. Raises CalledProcessError, whose stderr tells why, and TimeoutExpired."""
        done = subprocess.run([*self.command, *arguments], check=check, capture_output=True, text=True, timeout=seconds)
        return done.stdout.strip()


def find() -> Engine:
    """The engine. Raises NoEngine."""
    if shutil.which("docker") and _works(["docker", "info"]):
        return Engine(("docker",))
    if shutil.which("podman") is None:
        raise NoEngine(HOW)
    # crun, the default, does not run with the first kind of cgroups beside the second.
    old = _output(["podman", "info", "--format", "{{.Host.CgroupsVersion}}"]) == "v1"
    command = ("podman", "--runtime", "runc") if old and shutil.which("runc") else ("podman",)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Engine(command, limits(root=os.geteuid() == 0, may_raise=_may(_CAP_SYS_RESOURCE), files=files))


def limits(*, root: bool, may_raise: bool, files: int) -> tuple[str, ...]:
    """Podman as root raises limits, which a root without that right cannot; `files` is what there is."""
    if not root or may_raise:
        return ()
    return ("--ulimit", f"nofile={files}:{files}", "--ulimit", "nproc=4096:4096")


def _may(capability: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> capability & 1)
    return False


def _works(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 0


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60).stdout.strip()
