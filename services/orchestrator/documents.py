"""Document search as the tools see it: one query in, passages out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.orchestrator.results import Passages


@dataclass(frozen=True)
class Collection:
    """A set of documents as the model reads of it. `update_seconds`: when one was last stored, since the epoch."""

    name: str
    description: str
    document_count: int
    update_seconds: float = 0


@dataclass(frozen=True)
class DocumentQuery:
    """What to look for, and where: `collections` empty means all.

    `route`: choose among them by their descriptions. `by_meaning`: leave the words out, for a text whose words are
    not the user's.
    """

    text: str
    top_k: int = 5
    collections: tuple[str, ...] = ()
    route: bool = False
    by_meaning: bool = False


class Documents(Protocol):
    """Document search of the current tenant. Both methods raise ServiceError."""

    async def search(self, query: DocumentQuery, timeout_seconds: float) -> Passages:
        """Passages by descending score."""
        ...

    async def collections(self, timeout_seconds: float) -> Sequence[Collection]:
        """The tenant's collections."""
        ...
