"""Installs what others made, for tests: each in a folder of its own by its lock file, as it cannot live beside ours.

LlamaIndex's OpenAI class asks for an older SDK than ours; OpenAI's Node client is no Python; llama.cpp with its model
is large, and only the slow tests ask for it (`python -m local.clients llama`), as for ragas (`… ragas`), with which our
metrics are compared and whose packages do not go together with ours.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from local.node import npm

LOCKS = Path("tests/e2e/clients")
LLAMA_LOCK = Path("tests/integration/llama_server.lock")
RAGAS_LOCK = Path("tests/data/evals/metrics/ragas/requirements.lock")
FOLDER = Path(".sabueso/clients")


def main() -> None:
    """Installs what is not there yet, or whose lock file has changed."""
    if sys.argv[1:] == ["llama"]:
        return _install("llama", LLAMA_LOCK, _llama)
    if sys.argv[1:] == ["ragas"]:
        return _install("ragas", RAGAS_LOCK, lambda folder: _pip(folder, RAGAS_LOCK))
    _install("python", LOCKS / "requirements.lock", _python)
    _install("node", LOCKS / "package-lock.json", _node)


def _install(name: str, lock: Path, install: Callable[[Path], subprocess.CompletedProcess[str]]) -> None:
    folder, wanted = FOLDER / name, lock.read_text(encoding="utf-8")
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"• installing what the tests use of others ({name})")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = install(folder)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}{done.stderr}\nThis ({name}) could not be installed; see above.")
    stamp.write_text(wanted, encoding="utf-8")


def _python(folder: Path) -> subprocess.CompletedProcess[str]:
    return _pip(folder, LOCKS / "requirements.lock")


def _llama(folder: Path) -> subprocess.CompletedProcess[str]:
    # The weights are a plug-in of a program that would compile a llama.cpp of its own.
    return _pip(folder, LLAMA_LOCK, "--no-deps")


def _pip(folder: Path, lock: Path, *options: str) -> subprocess.CompletedProcess[str]:
    uv = str(Path(sys.executable).parent / "uv")
    to = ["--require-hashes", "--target", str(folder), "-r", str(lock)]
    return _run([uv, "pip", "install", "--quiet", *options, *to])


def _node(folder: Path) -> subprocess.CompletedProcess[str]:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / name, folder)
    return _run([*npm(), "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


if __name__ == "__main__":
    main()
