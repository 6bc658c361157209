"""What a vector store's registry says must be there, held against the passages that are."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_MOST_NAMED = 20


@dataclass(frozen=True)
class Version:
    """One stored version of a document. `chunk_count`: passages that bear its `generation`."""

    tenant: str
    document_id: str
    generation: str
    chunk_count: int


def incomplete(versions: Iterable[Version], passages: Mapping[str, int]) -> list[str]:
    """Documents that lack passages, `tenant/document`. `passages`: their number by generation."""
    found = {f"{one.tenant}/{one.document_id}" for one in versions if passages.get(one.generation, 0) < one.chunk_count}
    return sorted(found)


def told(names: list[str]) -> list[str]:
    """As a sentence for people; nothing where nothing is incomplete."""
    if not names:
        return []
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(names[:_MOST_NAMED])
    return [f"{len(names)} documents lack passages and must be ingested again: {listed}{more}"]


def fingerprint(rows: Iterable[object]) -> str:
    """Of all rows of a registry, in their order: every change of a document changes it."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=_text).encode() + b"\n")
    return digest.hexdigest()


def _text(value: Any) -> str:
    return repr(value)
