"""Installs what others made, for tests: each in a folder of its own by its lock file, as it cannot live beside ours.

LlamaIndex's OpenAI class asks for an older SDK than ours; OpenAI's Node client is no Python; llama.cpp with its model
is large, and only the slow tests ask for it (`python -m local.clients llama`), as for ragas (`… ragas`), with which our
metrics are compared and whose packages do not go together with ours, and for Ray (`… ray`), which holds two services.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

LOCKS = Path("tests/e2e/clients")
LLAMA_LOCK = Path("tests/integration/llama_server.lock")
RAGAS_LOCK = Path("tests/data/evals/metrics/ragas/requirements.lock")
# What Ray needs besides our own packages, beside which it lies.
RAY_LOCK = Path("ray.lock")
OUR_LOCK = Path("requirements.lock")
FOLDER = Path(".sabueso/clients")


def main() -> None:
    """Installs what is not there yet, or whose lock file has changed."""
    if sys.argv[1:] == ["llama"]:
        return _install("llama", LLAMA_LOCK, _llama)
    if sys.argv[1:] == ["ragas"]:
        return _install("ragas", RAGAS_LOCK, lambda folder: _pip(folder, RAGAS_LOCK))
    if sys.argv[1:] == ["lock-ray"]:
        return _lock_ray()
    if sys.argv[1:] == ["ray"]:
        return _install("ray", RAY_LOCK, _ray)
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


def _ray(folder: Path) -> subprocess.CompletedProcess[str]:
    # Compiled now: its processes give each other few seconds to start.
    return _pip(folder, RAY_LOCK, "--no-deps", "--compile-bytecode")


def _lock_ray() -> None:
    """Resolves Ray anew: its newest version that goes together with our own packages, without those."""
    command = [_uv(), "pip", "compile", "-", "-c", str(OUR_LOCK), "--universal", "--generate-hashes", "--no-header"]
    options = ["--no-annotate", "--no-emit-index-url", "--python-version", "3.11", "--quiet"]
    wanted = "ray[data,serve]\n"
    done = subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE, text=True, input=wanted)
    ours = {_name(line) for line in OUR_LOCK.read_text(encoding="utf-8").splitlines() if "==" in line}
    # A package is a line that is not indented, and its hashes.
    packages = re.split(r"\n(?=\S)", done.stdout.strip())
    RAY_LOCK.write_text("\n".join(one for one in packages if _name(one) not in ours) + "\n", encoding="utf-8")


def _name(requirement: str) -> str:
    return re.split(r"[=\[ ]", requirement)[0].lower()


def _uv() -> str:
    return str(Path(sys.executable).parent / "uv")


def _pip(folder: Path, lock: Path, *options: str) -> subprocess.CompletedProcess[str]:
    to = ["--require-hashes", "--target", str(folder), "-r", str(lock)]
    return _run([_uv(), "pip", "install", "--quiet", *options, *to])


def _node(folder: Path) -> subprocess.CompletedProcess[str]:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / name, folder)
    # Imported here: `lock-ray` runs before anything is installed.
    from local.node import npm

    return _run([*npm(), "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


if __name__ == "__main__":
    main()
