"""Writes the demo tenants' files: what tenant_files/*.yaml say, plus the keys of this installation as hashes."""

import hashlib
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import yaml

from services.runtime.tenants import Tenant

TENANTS = ("demo", "tiny", "other")
_SCOPES = "    scopes: [agent, models, search, documents, tools, data, admin]\n"


def describe(tenant_id: str, key: str = "") -> Tenant:
    """The tenant as its file will say; without a key nobody can call as it. Raises KeyError for an unknown tenant."""
    return Tenant.model_validate(yaml.safe_load(_text(tenant_id, key)))


def write_tenants(directory: Path, keys: Mapping[str, str]) -> list[Path]:
    """Writes one file a tenant of `keys` (tenant id → API key) and answers their paths.

    Only the keys' SHA-256 is written. A file that would not change is left alone, so that nobody reloads for nothing.
    Raises KeyError for an unknown tenant.
    """
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for tenant_id, key in keys.items():
        path = directory / f"{tenant_id}.yaml"
        text = _text(tenant_id, key)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            # In one step: a service that reloads at this moment sees the old file or the new one.
            half = path.with_suffix(".new")
            half.write_text(text, encoding="utf-8")
            os.replace(half, path)
        paths.append(path)
    return paths


def _text(tenant_id: str, key: str) -> str:
    if tenant_id not in TENANTS:
        raise KeyError(f"no demo tenant `{tenant_id}`; known are {', '.join(TENANTS)}")
    text = files("demo").joinpath("tenant_files", f"{tenant_id}.yaml").read_text(encoding="utf-8")
    if not key:
        return text
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f'{text}\nkeys:\n  - id: default\n    sha256: {digest}\n    labels: ["*"]\n{_SCOPES}'
