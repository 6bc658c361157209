"""Files of documents that were acknowledged and wait to be taken in."""

import shutil
from pathlib import Path

from services.cli.backup.part import Saved


class Spool:
    """The folder `jobs` of ingestion's spool; vectors beside it are only a cache."""

    name = "spool"

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "jobs"

    def _jobs(self, directory: Path) -> int:
        return sum(1 for one in directory.iterdir() if one.is_dir()) if directory.is_dir() else 0

    def save(self, folder: Path) -> Saved:
        if self._directory.is_dir():
            for job in self._directory.iterdir():
                try:
                    shutil.copytree(job, folder / job.name)
                except (shutil.Error, FileNotFoundError, NotADirectoryError):
                    # It was done meanwhile: what it gave is in the vector store, which is saved after this.
                    shutil.rmtree(folder / job.name, ignore_errors=True)
        return Saved({"jobs": self._jobs(folder)})

    def occupied(self) -> str:
        count = self._jobs(self._directory)
        return f"files of {count} jobs in {self._directory}" if count else ""

    def restore(self, folder: Path, saved: Saved, *, replace: bool) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        shutil.copytree(folder, self._directory)

    def check(self, saved: Saved) -> list[str]:
        found, expected = self._jobs(self._directory), saved.counts["jobs"]
        return [] if found == expected else [f"files of {found} jobs are there; of {expected} were saved"]
