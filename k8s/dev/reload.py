"""Runs a service from a copy of its code that Tilt may change, and starts it again after each change.

`python3 -c <this> <folder of the image> <writable folder>`. So a pod under development stays as production has it,
without rights and with a root that is read-only. Standard library only: it runs in the services' images.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# Tilt unpacks changed files with `tar -C / -x -f -`, which the images do not have.
TAR = """#!{python}
import sys, tarfile
folder = sys.argv[sys.argv.index("-C") + 1]
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|*") as archive:
    archive.extractall(folder, filter="data")
"""
# Compiled files do not look at their sources again; libraries and models do not change.
LEFT = shutil.ignore_patterns("__pycache__", "lib", "models", ".sabueso")


def prepare(image, copy):
    """Copies the code, unless a restarted container finds it there."""
    if not (copy / "__main__.py").exists():
        shutil.copytree(image, copy, ignore=LEFT, dirs_exist_ok=True)
    (copy / "bin").mkdir(exist_ok=True)
    (copy / "bin/tar").write_text(TAR.format(python=sys.executable))
    (copy / "bin/tar").chmod(0o755)


def state(copy):
    """What changes when a source file does."""
    return {path: path.stat().st_mtime_ns for path in copy.rglob("*.py") if path.exists()}


def start(image, copy):
    # Compiled files are kept, so that only what changed is compiled again.
    environment = os.environ | {"PYTHONPATH": f"{copy}:{image / 'lib'}", "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.Popen([sys.executable, str(copy)], env=environment)


def forget(sources):
    """Two changes within a second are one to Python, which compares seconds and sizes with what it compiled."""
    for source in sources:
        Path(importlib.util.cache_from_source(source)).unlink(missing_ok=True)


def end(child):
    child.terminate()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def main(image, copy):
    prepare(image, copy)
    child, before = start(image, copy), state(copy)

    def stop(*_):
        end(child)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    told = False
    while True:
        time.sleep(0.3)
        if child.poll() is not None and not told:
            print(f"ended with {child.returncode}; waiting for a change", flush=True)
            told = True
        now = state(copy)
        if now != before:
            # An archive may still be arriving.
            time.sleep(0.2)
            now = state(copy)
            print("changed; starting again", flush=True)
            end(child)
            forget(path for path in now if now[path] != before.get(path))
            before = now
            child, told = start(image, copy), False


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
