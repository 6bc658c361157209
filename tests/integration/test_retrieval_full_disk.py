"""A disk that is full passes: nothing of a document is seen until there is room, and then all of it."""

import resource
from contextlib import contextmanager

import pytest

from services.retrieval.edge.store import EdgeStore
from services.retrieval.store import Collection, Document, NewChunk, Reader, SparseTerms
from services.runtime.errors import DependencyFailed, NotFound

ACME = Reader("acme", ("*",))


@contextmanager
def files_of_at_most(size_bytes):
    """No file grows beyond it, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def chunks():
    for number in range(3):
        yield NewChunk(f"text {number}", [1.0] * 8, SparseTerms([number], [1.0]))


async def test_a_full_disk_is_a_lost_dependency_and_the_document_is_stored_once_there_is_room(tmp_path):
    store = EdgeStore(tmp_path)
    await store.open()
    await store.put_collection(ACME, Collection("docs"))
    with files_of_at_most(4096), pytest.raises(DependencyFailed):
        await store.put_document(ACME, Document("d", "docs", "m"), chunks())
    with pytest.raises(NotFound):
        await store.get_document(ACME, "d")
    await store.put_document(ACME, Document("d", "docs", "m"), chunks())
    assert [chunk.text for chunk in await store.get_chunks(ACME, "d")] == ["text 0", "text 1", "text 2"]
    await store.close()
