"""Brings files into a collection: sends what is not there yet and follows it; a run that was broken off is taken up."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from services.cli.client import Failed, Refused, Unreachable
from services.cli.folder import File

Fields = dict[str, Any]
State = Literal["sent", "skipped", "failed", "empty"]

OPEN_STATES = ("queued", "parsing", "embedding")
_POLL_SECONDS = 0.5
_UPLOADS_AT_ONCE = 4
# A gateway that restarts is waited for so long.
_PATIENCE_SECONDS = 60


class Gateway(Protocol):
    """What is asked of the gateway. All raise Failed."""

    def call(self, method: str, path: str, **options: Any) -> Fields:
        """One JSON call below /v1."""
        ...

    def upload(self, path: Path, fields: dict[str, str]) -> Fields:
        """Sends one file for ingestion."""
        ...

    def documents(self) -> Iterable[Fields]:
        """All documents; those that are not ready, or failed, come first."""
        ...


@dataclass(frozen=True)
class Target:
    """Where files go, and what is said of all of them."""

    collection: str
    language: str = ""
    labels: tuple[str, ...] = ()

    def fields(self, document_id: str) -> dict[str, str]:
        """The fields of the form in which a file is sent."""
        labels = json.dumps(self.labels) if self.labels else ""
        said = {"collection": self.collection, "document_id": document_id, "language": self.language, "labels": labels}
        return {name: value for name, value in said.items() if value}


@dataclass
class Entry:
    """A file and how it fares. `state` is the outcome so far, `document` the last that the gateway said of it."""

    file: File
    state: State
    reason: str = ""
    sha256: str = ""
    document: Fields = field(default_factory=dict[str, Any])

    def as_fields(self) -> Fields:
        """For scripts."""
        return {
            "document_id": self.file.document_id,
            "file": str(self.file.path),
            "state": self.state,
            "reason": self.reason or None,
        }


@dataclass(frozen=True)
class Counts:
    """How far it is. Chunks are those of documents whose number of chunks is known."""

    todo: int
    uploaded: int
    done: int
    chunks: int
    total_chunks: int


class Ingestion:
    """One run of `sabueso ingest`."""

    def __init__(self, gateway: Gateway, target: Target, *, show: Callable[[Counts, str], None]) -> None:
        """`show` gets how far it is, and what is being waited for."""
        self._gateway = gateway
        self._target = target
        self._show = show
        self._waiting_for = ""
        self._stopping = threading.Event()
        self.entries: list[Entry] = []

    def plan(self, files: Sequence[File]) -> list[Entry]:
        """What is to be done with each file: nothing is sent. `sent` means that it has to be, or was before."""
        known = {document["document_id"]: document for document in self._gateway.documents()}
        self.entries = [self._entry(file, known.get(file.document_id)) for file in files]
        return self.entries

    def send(self, *, follow: bool) -> None:
        """Sends what is planned, and with `follow` sees it through. Failures are in the entries."""
        todo = [entry for entry in self.entries if entry.state == "sent"]
        under_way = {entry.file.document_id: entry for entry in todo if entry.document}
        pool = ThreadPoolExecutor(_UPLOADS_AT_ONCE)
        try:
            uploads = {pool.submit(self._upload, entry): entry for entry in todo if not entry.document}
            unsent = set(uploads)
            looked = time.monotonic()
            while unsent or (follow and under_way):
                unsent -= self._arrived(uploads, unsent, under_way, len(todo))
                if follow and time.monotonic() - looked >= _POLL_SECONDS:
                    self._look(under_way)
                    looked = time.monotonic()
        finally:
            self._stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
        if follow and todo:
            self._verify(todo)

    def _entry(self, file: File, document: Fields | None) -> Entry:
        try:
            sha256 = _sha256(file.path)
        except OSError as error:
            return Entry(file, "failed", f"It cannot be read: {error.strerror}.")
        if sha256 == _EMPTY:
            return Entry(file, "empty", "The file is empty.", sha256)
        if document is None or document["status"] == "cancelled":
            return Entry(file, "sent", sha256=sha256)
        if document["collection"] != self._target.collection:
            reason = f"There is a document `{file.document_id}` in `{document['collection']}`; choose another --prefix."
            return Entry(file, "failed", reason, sha256)
        if document.get("content_sha256") != sha256 or set(document.get("labels") or ()) != set(self._target.labels):
            return Entry(file, "sent", sha256=sha256)
        if document["status"] in OPEN_STATES:  # of a run that was broken off
            return Entry(file, "sent", sha256=sha256, document=document)
        return Entry(file, "skipped" if document["status"] == "ready" else "sent", sha256=sha256)

    def _upload(self, entry: Entry) -> None:
        """Waits as long as the gateway asks to. Raises Failed."""
        given_up = time.monotonic() + _PATIENCE_SECONDS
        while not self._stopping.is_set():
            try:
                self._gateway.upload(entry.file.path, self._target.fields(entry.file.document_id))
                return
            except Refused as refusal:
                if refusal.wait_seconds is None or (refusal.status_code != 429 and time.monotonic() > given_up):
                    raise
                self._waiting_for = str(refusal)
                self._stopping.wait(refusal.wait_seconds)
            except Unreachable as lost:
                if time.monotonic() > given_up:
                    raise
                self._waiting_for = str(lost)
                self._stopping.wait(1)
            except OSError as error:
                raise Failed(f"It cannot be read: {error.strerror}.") from None

    def _arrived(
        self, uploads: dict[Future[None], Entry], unsent: set[Future[None]], under_way: dict[str, Entry], todo: int
    ) -> set[Future[None]]:
        """Waits a moment; the uploads that came to an end meanwhile."""
        if unsent:
            ended, left = wait(unsent, _POLL_SECONDS, FIRST_COMPLETED)
        else:
            time.sleep(_POLL_SECONDS)
            ended, left = set[Future[None]](), unsent
        for upload in ended:
            entry = uploads[upload]
            try:
                upload.result()
                under_way[entry.file.document_id] = entry
                self._waiting_for = ""
            except Unreachable:
                raise
            except Failed as error:
                entry.state, entry.reason = "failed", str(error)
        self._show(self._counts(todo, len(left), under_way), self._waiting_for)
        return ended

    def _look(self, under_way: dict[str, Entry]) -> None:
        """Takes out of `under_way` what has come to an end."""
        asked = dict(under_way)  # what is accepted from now on is perhaps not in the answer
        try:
            page = self._gateway.call("GET", "/documents", params={"limit": 1})
        except Unreachable:
            return
        except Refused as refusal:
            if refusal.wait_seconds is None:
                raise
            self._stopping.wait(refusal.wait_seconds)
            return
        if page.get("degraded"):  # the jobs are not in it
            return
        unfinished = {one["document_id"]: one for one in page["data"] if one["status"] != "ready"}
        for id_, entry in asked.items():
            document = unfinished.get(id_)
            if document is not None:
                entry.document = document
            if document is None or document["status"] not in OPEN_STATES:
                del under_way[id_]
            if document is not None and document["status"] not in OPEN_STATES:
                entry.state, entry.reason = "failed", document.get("reason") or document["status"]

    def _verify(self, todo: Sequence[Entry]) -> None:
        """What is neither under way nor failed must be there, just as it was sent."""
        stored = {document["document_id"]: document for document in self._gateway.documents()}
        for entry in todo:
            document = stored.get(entry.file.document_id, {})
            entry.document = document or entry.document
            if entry.state == "sent" and (
                document.get("status") != "ready" or document.get("content_sha256", entry.sha256) != entry.sha256
            ):
                entry.state, entry.reason = "failed", "It was cancelled or replaced, or changed while it was sent."

    def _counts(self, todo: int, unsent: int, under_way: dict[str, Entry]) -> Counts:
        chunks = total = 0
        for entry in self.entries:
            entry_total = entry.document.get("total_chunk_count") or 0
            ended = entry.file.document_id not in under_way
            chunks += entry_total if ended else entry.document.get("chunk_count") or 0
            total += entry_total
        return Counts(todo, todo - unsent, todo - unsent - len(under_way), chunks, total)


_EMPTY = hashlib.sha256().hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def gone(documents: Iterable[Fields], collection: str, prefix: str, present: set[str]) -> list[str]:
    """Ids of the collection's documents with this prefix whose files are not there any more."""
    ids = (document["document_id"] for document in documents if document["collection"] == collection)
    return sorted(id_ for id_ in ids if id_.startswith(f"{prefix}/") and id_ not in present)


def summary(entries: Sequence[Entry], pruned: Sequence[str]) -> Fields:
    """The run, for scripts."""
    states = ("sent", "skipped", "empty", "failed")
    return {
        "counts": {state: sum(entry.state == state for entry in entries) for state in states} | {"pruned": len(pruned)},
        "documents": [entry.as_fields() for entry in entries],
        "pruned": list(pruned),
    }
