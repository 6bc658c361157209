"""How chunks look in the engine."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval import payload
from services.retrieval.placement import Placement, placement
from services.retrieval.store import (
    UNSCANNED,
    WRITE_BATCH,
    Document,
    Index,
    NewChunk,
    Quantization,
    Reader,
    Scan,
    SparseTerms,
    SuspiciousSpan,
)
from services.runtime.errors import InvalidField

text = st.text(max_size=20)


@given(text, text, text, st.integers(0, 9), st.dictionaries(text, text, max_size=3))
def test_a_chunk_comes_back_as_it_was(words, context, parent, page, metadata):
    document = Document("d", "docs", "model", "Title", "a.pdf", "es", metadata)
    chunk = NewChunk(words, [1.0], SparseTerms([], []), None, page, "A > B", context, parent)
    read = payload.chunk_of(payload.chunk_payload("t", "e", "g", document, chunk, 3))
    assert (read.text, read.context, read.parent_text, read.page, read.position) == (words, context, parent, page, 3)
    assert (read.title, read.source, read.language, read.collection) == ("Title", "a.pdf", "es", "docs")
    assert read.metadata == metadata


def test_marks_of_the_scan_come_back_and_older_chunks_have_none():
    marks = (SuspiciousSpan(0, 4, 0.91, "order"), SuspiciousSpan(5, 9, 0.8, "hidden"))
    chunk = NewChunk("send this", [1.0], SparseTerms([], []), suspicious=marks)
    written = payload.chunk_payload("t", "e", "g", Document("d", "docs", "model"), chunk, 0)
    assert payload.chunk_of(json.loads(json.dumps(written))).suspicious == marks
    del written["suspicious"]
    assert payload.chunk_of(written).suspicious == ()


def test_what_the_scan_said_comes_back_and_older_chunks_were_not_scanned():
    chunk = NewChunk("send this", [1.0], SparseTerms([], []), scan=Scan("a1", 0.5))
    written = payload.chunk_payload("t", "e", "g", Document("d", "docs", "model"), chunk, 0)
    assert payload.chunk_of(json.loads(json.dumps(written))).scan == Scan("a1", 0.5)
    del written["scan"]
    assert payload.chunk_of(written).scan == UNSCANNED


@given(st.lists(st.sampled_from(["hr", "eu", "board"]), max_size=3), st.lists(st.sampled_from(["hr", "eu", "*"])))
def test_the_filter_opens_what_the_reader_may_read(labels, held):
    document, reader = Document("d", "docs", "model", labels=tuple(labels)), Reader("t", tuple(held))
    chunk = NewChunk("x", [1.0], SparseTerms([], []))
    stored = payload.chunk_payload("t", "e", "g", document, chunk, 0)["labels"]
    wanted = payload.open_to(reader)
    assert (not wanted or not set(wanted).isdisjoint(stored)) == reader.may_read(labels)


def test_later_generations_sort_higher():
    names = [payload.new_generation() for _ in range(50)]
    assert names == sorted(names)
    assert len(set(names)) == 50


async def test_chunks_come_in_batches_of_one_length():
    async def chunks(*lengths):
        for length in lengths:
            yield NewChunk("x", [1.0] * length, SparseTerms([], []))

    sizes = [len(batch) async for batch in payload.batches(chunks(*[3] * (WRITE_BATCH + 1)), "model", 3)]
    assert sizes == [WRITE_BATCH, 1]
    for lengths, known in (((3, 2), 0), ((2,), 3)):
        with pytest.raises(InvalidField, match="have 3") as error:
            [batch async for batch in payload.batches(chunks(*lengths), "model", known)]
        assert error.value.metadata["field"] == "chunk.dense"


def test_each_placement_has_a_name_of_its_own():
    ones = [
        Placement("e5"),
        Placement("E5"),
        Placement("e5", learned_sparse=True),
        placement("e5", Index(hnsw_m=8), False),
        placement("e5", Index(hnsw_ef_construct=64), False),
        *(placement("e5", Index(quantization=one), False) for one in Quantization if one is not Quantization.NONE),
    ]
    assert len({one.name for one in ones}) == len(ones)
    assert placement("e5", Index(hnsw_ef=16, oversampling=4, rescore=False), False) == Placement("e5")
    assert all(one.name.startswith("chunks-e5-") for one in ones)
