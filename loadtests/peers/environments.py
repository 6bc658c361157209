"""Installs the peers by their lock files, each into an environment of its own: `-m loadtests.peers.environments`.

They cannot live beside our packages, and PyTorch alone takes gigabytes: what is large is installed only by that command
(`make bench-peers`), what is small when it is first measured.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from loadtests.measuring import NotMeasured

_LOCKS, _FOLDER = Path(__file__).parent, Path(".sabueso/peers")
# PyTorch comes with what GPUs need: 5.6 GB.
LARGE = frozenset({"models", "infinity"})
SMALL = frozenset({"agents", "cache"})
_SECONDS = 1800


def python_of(name: str, *, install: bool = False) -> str:
    """The Python that has the packages of `NAME.lock`. Raises NotMeasured where they cannot be had.

    Those of LARGE must have been installed, unless `install`.
    """
    lock = _LOCKS / f"{name}.lock"
    digest = hashlib.sha1(lock.read_bytes(), usedforsecurity=False).hexdigest()[:8]
    folder = _FOLDER / f"{name}-{digest}"
    if not folder.exists():
        if name in LARGE and not install:
            raise NotMeasured(f"`make bench-peers` has not been run: {', '.join(packages(name))}")
        _install(lock, folder)
    return str((folder / "bin/python").absolute())


def packages(name: str) -> list[str]:
    """What an environment was made for, with versions."""
    wanted = {
        "models": ("sentence-transformers", "fastembed"),
        "infinity": ("infinity-emb",),
        "cache": ("gptcache", "redisvl"),
        "agents": ("langchain", "langgraph", "pydantic-ai-slim"),
    }[name]
    lines = (_LOCKS / f"{name}.lock").read_text(encoding="utf-8").splitlines()
    return [line.removesuffix(" \\") for line in lines if line.split("==")[0] in wanted]


def _install(lock: Path, folder: Path) -> None:
    uv, half = str(Path(sys.executable).parent / "uv"), folder.with_suffix(".half")
    for old in _FOLDER.glob(f"{lock.stem}-*"):
        shutil.rmtree(old, ignore_errors=True)
    print(f"• installing {', '.join(packages(lock.stem))}", file=sys.stderr, flush=True)
    _run([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(half)])
    python = str(half / "bin/python")
    _run([uv, "pip", "install", "--quiet", "--require-hashes", "--python", python, "-r", str(lock)])
    half.rename(folder)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise NotMeasured(f"a peer could not be installed: {said[-300:]}") from None


if __name__ == "__main__":
    for one in sorted(LARGE | SMALL):
        print(python_of(one, install=True))
