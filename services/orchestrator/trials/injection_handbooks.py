"""Writes the pinned sample of handbooks that the detector of injections must not blame.

`python -m services.orchestrator.trials.injection_handbooks`: what installed packages under Apache-2.0 and Python's own
modules (PSF-2.0) say of themselves, as they are now. What is learnt and measured reads the sample, never what happens
to be installed: run this only to renew it, learn anew, and write the new figures beside it.
"""

import ast
import gzip
import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

SAMPLE = Path("tests/data/injection/handbooks/handbooks.jsonl.gz")
_MAX_PACKAGE_CHARS, _MAX_MODULE_CHARS = 20_000, 8_000
# Where it was fetched from says nothing, and has no business in a source tree.
_REGISTRY = re.compile(r"(?:https?://)?[\w.-]*(?:pypi|pythonhosted|anaconda|conda-forge|npmjs|crates)\.[a-z]{2,3}\S*")
_LICENCE_FIELDS = ("License-Expression", "License")
_APACHE = {"apache-2.0", "apache 2.0", "apache license 2.0", "apache license, version 2.0"}


def packages() -> Iterator[Mapping[str, str]]:
    """How to install, configure and call. Those with a NOTICE of their own, which would have to go along, stay out."""
    for package in sorted(metadata.distributions(), key=lambda one: one.name):
        named = next((package.metadata[key] for key in _LICENCE_FIELDS if key in package.metadata), "")
        has_notice = any(Path(file).name.upper().startswith("NOTICE") for file in package.files or ())
        text = str(package.read_text("METADATA") or "").partition("\n\n")[2].strip()
        if text and named.strip().lower() in _APACHE and not has_notice and package.name != "sabueso":
            yield _entry("packages", package.name, package.version, text[:_MAX_PACKAGE_CHARS])


def modules() -> Iterator[Mapping[str, str]]:
    """Docstrings of Python's own library."""
    for name in sorted(sys.stdlib_module_names):
        spec = find_spec(name) if not name.startswith("_") and name not in ("antigravity", "this") else None
        if spec and spec.origin and spec.origin.endswith(".py"):
            tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8", errors="replace"))
            nodes = (one for one in ast.walk(tree) if isinstance(one, ast.Module | ast.ClassDef | ast.FunctionDef))
            said = "\n\n".join(filter(None, map(ast.get_docstring, nodes)))
            if said:
                yield _entry("python", name, platform.python_version(), said[:_MAX_MODULE_CHARS])


def _entry(source: str, name: str, version: str, text: str) -> Mapping[str, str]:
    return {"set": source, "name": name, "version": version, "text": _REGISTRY.sub("", text)}


def main() -> None:
    """Writes the sample; the same sample as the same bytes."""
    lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in (*packages(), *modules()))
    SAMPLE.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main()
