"""The tenants' files. They hold hashes of keys and names of secrets, never a secret."""

import shutil
from pathlib import Path

from services.cli.backup.part import Refused, Saved
from services.cli.tenants import mistakes_in


class TenantFiles:
    """A folder of YAML files."""

    name = "tenants"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _paths(self, directory: Path) -> list[Path]:
        return sorted(directory.glob("*.y*ml"))

    def save(self, folder: Path) -> Saved:
        paths = self._paths(self._directory)
        if not paths:
            raise Refused(f"{self._directory} holds no tenant's file")
        for path in paths:
            # What a ConfigMap mounts is a link to a file that goes away when it changes.
            shutil.copyfile(path, folder / path.name)
        mistakes = [f"{one.file}: {one.field}: {one.reason}" for one in mistakes_in(self._paths(folder))]
        return Saved({"files": len(paths)}, warnings=mistakes)

    def occupied(self) -> str:
        paths = self._paths(self._directory) if self._directory.is_dir() else []
        return f"{len(paths)} tenants' files in {self._directory}" if paths else ""

    def restore(self, folder: Path, saved: Saved, *, replace: bool) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        wanted = {path.name for path in self._paths(folder)}
        try:
            for path in self._paths(folder):
                # Services look every two seconds: they must never see half a file.
                written = self._directory / f".{path.name}.restoring"
                shutil.copyfile(path, written)
                written.replace(self._directory / path.name)
            for path in self._paths(self._directory):
                if path.name not in wanted:
                    path.unlink()
        except OSError as error:
            raise Refused(
                f"{self._directory} cannot be written ({error.strerror}). What a cluster mounts is changed by kubectl: "
                f"restore into another folder, then kubectl create configmap … --from-file"
            ) from None

    def check(self, saved: Saved) -> list[str]:
        found = len(self._paths(self._directory))
        expected = saved.counts["files"]
        return [] if found == expected else [f"{found} tenants' files are there; {expected} were saved"]
