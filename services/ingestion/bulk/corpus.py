"""What a bulk run is about: which files become which documents, whose they are, and how each fared."""

import hashlib
import json
import mimetypes
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from services.ingestion.jobs import Submission
from services.ingestion.parsers.formats import clean

PRINCIPAL = "bulk-index"
EMPTY_SHA256 = hashlib.sha256().hexdigest()

State = Literal["stored", "unchanged", "empty", "failed"]


@dataclass(frozen=True)
class Source:
    """A file and the document that it becomes. `uri`: a path, or an address such as `s3://bucket/key`.

    `stamp` changes with the file's size or time of change; empty where neither is known. `store`: the address from
    which it was listed, and `path` its place there; both empty for a file of this machine.
    """

    uri: str
    document_id: str
    stamp: str = ""
    store: str = ""
    path: str = ""

    @property
    def filename(self) -> str:
        """Without folders, as the ingestion service keeps it."""
        path = unquote(urlsplit(self.uri).path) if self.store.startswith(("http://", "https://")) else self.uri
        return PurePath(clean(path).replace("\\", "/")).name

    @property
    def content_type(self) -> str:
        """As clients of the gateway guess it from the name."""
        return mimetypes.guess_type(self.filename)[0] or "application/octet-stream"


@dataclass(frozen=True)
class Target:
    """Where all documents go, and what is said of them: `language` (ISO 639-1) empty means that it is detected."""

    tenant: str
    collection: str
    language: str = ""
    labels: tuple[str, ...] = ()

    def submission(self, source: Source, sha256: str, collection_language: str, job_id: str) -> Submission:
        """What the ingestion service would make of the same file, sent by `sabueso ingest`."""
        return Submission(
            job_id=job_id,
            tenant=self.tenant,
            principal=PRINCIPAL,
            collection=self.collection,
            document_id=source.document_id,
            filename=source.filename,
            content_type=source.content_type,
            language=self.language,
            collection_language=collection_language,
            content_sha256=sha256,
            labels=tuple(dict.fromkeys(self.labels)),
            caller_labels=("*",),
        )


@dataclass(frozen=True)
class Outcome:
    """How a file fared. `sha256` is that of its bytes, in hex; empty where they were not read."""

    document_id: str
    uri: str
    state: State
    reason: str = ""
    sha256: str = ""
    stamp: str = ""
    chunk_count: int = 0
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """On one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Outcome":
        """The inverse."""
        fields: dict[str, Any] = json.loads(line)
        warnings = tuple(fields.pop("warnings"))
        return cls(**fields, warnings=warnings)


def failed(source: Source, reason: str, sha256: str = "") -> Outcome:
    """The outcome of a file that was not stored; `reason` is for a person."""
    return Outcome(source.document_id, source.uri, "failed", reason, sha256, source.stamp)
