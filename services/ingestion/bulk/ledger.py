"""Remembers what each file held when it was last indexed, so that the next run need not read it to know."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from services.ingestion.bulk.corpus import Outcome, Source

_SCHEMA = """
create table if not exists documents (
  document_id text primary key,
  uri text not null,
  stamp text not null,
  sha256 text not null,
  state text not null,
  reason text not null,
  chunk_count integer not null
)
"""


class Ledger:
    """One file a run's target. It spares reading, and no more: what is stored is asked of the index each time.

    So a ledger that is lost, or older than the index, costs time and makes nothing wrong.
    """

    def __init__(self, path: Path) -> None:
        """Made if it is not there. Raises sqlite3.Error when another run has it, or it is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._rows = sqlite3.connect(path, isolation_level=None, timeout=2)
        try:
            # One run at a time: a killed one lets go of it at once.
            self._rows.execute("pragma locking_mode = exclusive")
            self._rows.execute("pragma journal_mode = wal")
            # Survives the process's end by itself; after a power cut the last entries may be gone.
            self._rows.execute("pragma synchronous = normal")
            self._rows.execute("begin immediate")
            self._rows.execute(_SCHEMA)
            self._rows.execute("commit")
        except sqlite3.Error:
            self._rows.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def sha256s(self, sources: Iterable[Source]) -> dict[str, str]:
        """By document id: the hash of each file that has not changed since it was last read."""
        query = "select sha256 from documents where document_id = ? and uri = ? and stamp = ? and sha256 <> ''"
        known: dict[str, str] = {}
        for source in sources:
            if not source.stamp:
                continue
            found = self._rows.execute(query, (source.document_id, source.uri, source.stamp)).fetchone()
            if found is not None:
                known[source.document_id] = found[0]
        return known

    def record(self, outcome: Outcome) -> None:
        """Is kept when this returns, even if the process is killed then."""
        self._rows.execute(
            "insert or replace into documents values (?, ?, ?, ?, ?, ?, ?)",
            (
                outcome.document_id,
                outcome.uri,
                outcome.stamp,
                outcome.sha256,
                outcome.state,
                outcome.reason,
                outcome.chunk_count,
            ),
        )

    def forget(self) -> None:
        """Every file is read again."""
        self._rows.execute("delete from documents")

    def close(self) -> None:
        """Lets another run have it."""
        self._rows.close()
