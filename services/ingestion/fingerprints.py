"""Hashes that say whether something is still the same: a document, the way it was cut, an embedded text."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple

from services.ingestion.cutting.chunking import Chunk, Sizes, Strategy
from services.ingestion.jobs import Submission

# A change here makes the same file be read, cut and embedded anew.
PIPELINE_VERSION = 2


def document_mark(submission: Submission, made_by: Sequence[str | int | bool], strategy: Strategy, sizes: Sizes) -> str:
    """Changes with whatever would change the stored document: bytes, options, readers, model, way of cutting."""
    parts = [
        PIPELINE_VERSION,
        submission.content_sha256,
        submission.collection,
        submission.filename,
        submission.content_type,
        submission.title,
        submission.language,
        submission.collection_language,
        submission.source,
        sorted(submission.metadata.items()),
        sorted(submission.labels),
        made_by,
        strategy,
        astuple(sizes),
    ]
    return _hash(json.dumps(parts))


def cut_mark(mark: str, chunks: Sequence[Chunk]) -> str:
    """Changes with the texts that are embedded, too: breaks that were found by vectors may differ from run to run."""
    return _hash(json.dumps([mark, *(chunk.embedded for chunk in chunks)]))


def content_key(made_by: Sequence[str | int | bool], text: str) -> str:
    """Of one embedded text: the same key means the same vectors."""
    return _hash(json.dumps([*made_by, text]))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
