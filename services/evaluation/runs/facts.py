"""Machine, versions and commit: what a figure was made on."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata

from services.evaluation.answered import Json

# Options whose values are nobody's business.
_SECRET = frozenset({"--judge-key", "--judge-cache", "--model-key", "--store", "--database"})
_PACKAGES = ("openai", "ir-measures", "scipy", "numpy")


def facts(command: str) -> dict[str, Json]:
    """As the manifest keeps them."""
    return {
        "command": command,
        "commit": commit(),
        "machine": f"{os.cpu_count()} × {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }


def commit() -> str:
    """Short hash, with a mark where files differ from it; unknown where there is no git, as in an image."""
    # Without it even looking takes the index's lock, and somebody's commit fails.
    git = ["git", "--no-optional-locks"]
    try:
        head, changed = (
            subprocess.run([*git, *words], capture_output=True, text=True, check=True, timeout=30).stdout.strip()
            for words in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def command_line(words: Sequence[str] | None = None) -> str:
    """What was called, without where the program is, and without keys and addresses of databases: reports are shown."""
    program, *rest = sys.argv if words is None else words
    told = [os.path.basename(program)]
    hidden = False
    for word in rest:
        name, sign, _ = word.partition("=")
        if hidden or (sign and name in _SECRET):
            told.append(f"{name}=…" if sign and not hidden else "…")
        else:
            told.append(shlex.quote(word))
        hidden = not hidden and word in _SECRET
    return " ".join(told)
