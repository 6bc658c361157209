"""Embedded stores filled with a synthetic corpus and indexed: kept from run to run, as filling takes minutes."""

import hashlib
import importlib.metadata
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from loadtests.measuring import NotMeasured
from loadtests.synthetic_corpus import MODEL, Corpus
from services.retrieval.edge.reindex import build_index
from services.retrieval.edge.store import EdgeStore
from services.retrieval.store import Collection, Document, NewChunk, Reader

READER = Reader("bench")
CHUNKS_A_DOCUMENT = 500
_FOLDER = Path(".sabueso/bench")
_CODE = (
    "services/retrieval/edge",
    "services/retrieval/payload.py",
    "services/retrieval/placement.py",
    "loadtests/synthetic_corpus.py",
    __file__,
)
# Below it the index compares with all anyway.
_INDEXED_FROM_CHUNKS = 20_000


@asynccontextmanager
async def filled(corpus: Corpus, kept_in: Path = _FOLDER) -> AsyncGenerator[EdgeStore]:
    """A store that holds it. Raises NotMeasured when the index cannot be built."""
    folder = kept_in / f"search-{len(corpus)}-{_version()}"
    if not folder.exists():
        await _fill(folder, corpus)
    store = EdgeStore(folder)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def each(chunks: Sequence[NewChunk]) -> AsyncGenerator[NewChunk]:
    """As a store wants them."""
    for chunk in chunks:
        yield chunk


async def _fill(folder: Path, corpus: Corpus) -> None:
    for old in folder.parent.glob(f"search-{len(corpus)}-*"):
        shutil.rmtree(old, ignore_errors=True)
    half, began = folder.with_name(f"search-{len(corpus)}-half"), time.monotonic()
    store = EdgeStore(half, index_after_chunks=10**9)
    await store.open()
    try:
        await store.put_collection(READER, Collection("all"))
        for start in range(0, len(corpus), CHUNKS_A_DOCUMENT):
            chunks = list(corpus.chunks(start, start + CHUNKS_A_DOCUMENT))
            await store.put_document(READER, Document(str(start), "all", MODEL), each(chunks))
    finally:
        await store.close()
    stored = time.monotonic()
    if len(corpus) >= _INDEXED_FROM_CHUNKS:
        for shard in (half / "shards").iterdir():
            if not await build_index(shard):
                raise NotMeasured(f"the index of {len(corpus)} chunks could not be built")
    half.rename(folder)
    took = f"stored in {stored - began:.0f} s, indexed in {time.monotonic() - stored:.0f} s"
    print(f"{len(corpus)} chunks: {took}", file=sys.stderr, flush=True)


def _version() -> str:
    """Of all that decides how a store looks on the disk."""
    digest = hashlib.sha1(importlib.metadata.version("qdrant-edge-py").encode(), usedforsecurity=False)
    for place in map(Path, _CODE):
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
