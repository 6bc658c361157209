"""Installs stock clients that cannot live beside our own packages: each in a folder of its own, by its lock file.

LlamaIndex's OpenAI class asks for an older SDK than ours; OpenAI's Node client is no Python.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from local.node import npm

LOCKS = Path("tests/e2e/clients")
FOLDER = Path(".sabueso/clients")


def main() -> None:
    """Installs what is not there yet, or whose lock file has changed."""
    _install("python", "requirements.lock", _python)
    _install("node", "package-lock.json", _node)


def _install(name: str, lock: str, install: Callable[[Path], subprocess.CompletedProcess[str]]) -> None:
    folder, wanted = FOLDER / name, (LOCKS / lock).read_text(encoding="utf-8")
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"• installing a stock client for the tests ({name})")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = install(folder)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}{done.stderr}\nThe stock client ({name}) could not be installed; see above.")
    stamp.write_text(wanted, encoding="utf-8")


def _python(folder: Path) -> subprocess.CompletedProcess[str]:
    uv = Path(sys.executable).parent / "uv"
    lock = str(LOCKS / "requirements.lock")
    return _run([str(uv), "pip", "install", "--quiet", "--require-hashes", "--target", str(folder), "-r", lock])


def _node(folder: Path) -> subprocess.CompletedProcess[str]:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / name, folder)
    return _run([*npm(), "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


if __name__ == "__main__":
    main()
