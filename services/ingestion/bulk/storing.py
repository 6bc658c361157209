"""The second half of the way of a document: its vectors are made, and it is stored as a whole."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.ingestion.bulk.corpus import Outcome
from services.ingestion.bulk.preparing import Prepared
from services.ingestion.document import Embedder, Embedders, Index, ResultCache
from services.ingestion.spool import VectorFile

# As in the service: texts that are embedded together may pull at each other's last bits.
_BATCH_TEXTS = 32


@dataclass(frozen=True)
class Storing:
    """Embeds and stores prepared documents; vectors wait on disk, so that memory does not grow with a document.

    `act` makes the current task a caller of the tenant, anew each time: tokens expire.
    """

    embedders: Embedders
    index: Index
    results: ResultCache
    act: Callable[[], None]

    async def store(self, prepared: Prepared) -> Outcome:
        """The index switches to the new document at once, or keeps the old one. Raises the errors of services/runtime.

        Again is safe: the same document has the same id and fingerprint, and replaces itself.
        """
        self.act()
        embedder = await self.embedders.embedder_for(prepared.description.model)
        with tempfile.TemporaryDirectory(prefix="sabueso-bulk-") as folder:
            vectors = VectorFile(Path(folder) / "vectors", prepared.description.fingerprint)
            while vectors.count < len(prepared.chunks):
                self.act()
                await self._embed(prepared, embedder, vectors)
            self.act()
            pairs = zip(prepared.chunks, vectors.read(), strict=True)
            count = await self.index.put(prepared.description, pairs)
        await self.results.forget({prepared.description.collection})
        source = prepared.source
        return Outcome(
            source.document_id, source.uri, "stored", "", prepared.sha256, source.stamp, count, prepared.warnings
        )

    async def _embed(self, prepared: Prepared, embedder: Embedder, vectors: VectorFile) -> None:
        batch = prepared.chunks[vectors.count : vectors.count + _BATCH_TEXTS]
        texts = list(dict.fromkeys(chunk.embedded for chunk in batch))
        language = prepared.description.language
        made = await embedder.embed(texts, language, token_vectors=prepared.token_vectors)
        by_text = dict(zip(texts, made, strict=True))
        await asyncio.to_thread(vectors.append, [by_text[chunk.embedded] for chunk in batch])
