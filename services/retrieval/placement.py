"""Which vectors share one physical place, and what it is called."""

import hashlib
import re
from dataclasses import dataclass

from services.retrieval.store import Index, Quantization


@dataclass(frozen=True)
class Placement:
    """What all vectors of one shard (of a server: collection) have in common.

    Vectors of different models do not compare, learned sparse weights get no IDF, and graph and compression are built
    for a place as a whole. The rest of an `Index` is said with each query.
    """

    model: str
    learned_sparse: bool = False
    hnsw_m: int = 16
    hnsw_ef_construct: int = 128
    quantization: Quantization = Quantization.NONE
    # Of a server's collections; 0 and None: as the service has it for all.
    shard_number: int = 0
    on_disk: bool | None = None

    @property
    def name(self) -> str:
        """A name for folders and collections: readable, and different for each placement."""
        readable = re.sub(r"[^a-z0-9]+", "-", self.model.lower()).strip("-")[:40]
        parts: tuple[object, ...] = (
            *(self.model, self.learned_sparse, self.hnsw_m, self.hnsw_ef_construct, self.quantization.value),
        )
        if self.shard_number or self.on_disk is not None:  # others keep the names that they have
            parts = (*parts, self.shard_number, self.on_disk)
        return f"chunks-{readable}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def placement(model: str, index: Index, learned_sparse: bool) -> Placement:
    """The place of a document's version."""
    return Placement(model, learned_sparse, index.hnsw_m, index.hnsw_ef_construct, index.quantization)
