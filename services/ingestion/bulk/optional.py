"""Loads what only bulk indexing needs, when it is needed: every other service runs without it."""

import importlib
from types import ModuleType


class RayMissing(Exception):
    """Ray, or what it reads files with, is not installed. The message names the fix."""


def module(name: str) -> ModuleType:
    """The module of this name, of Ray or pyarrow. Raises RayMissing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise RayMissing(
            f"{error}: bulk indexing needs the packages of the group ray (docs/ray.md: uv pip install -r pyproject.toml"
            " --group ray -c requirements.lock -c ray.lock); without Ray, `sabueso ingest` sends the same files to the"
            " ingestion service."
        ) from None
