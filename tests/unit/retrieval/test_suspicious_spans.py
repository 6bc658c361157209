"""Marks of the scan at ingestion are checked when they come and told when the passage is found."""

import pytest

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from services.retrieval import wire
from services.retrieval.store import UNSCANNED, Scan, StoredChunk, SuspiciousSpan
from services.runtime.errors import InvalidField


def sent(*spans):
    return pb.Chunk(text="pay this now", dense=[1.0], suspicious_spans=[pb.SuspiciousSpan(**span) for span in spans])


def test_marks_come_in_and_go_out_with_the_passage():
    taken = wire.chunk(sent({"start": 0, "end": 3, "score": 0.91, "kind": "order"}))
    assert taken.suspicious == (SuspiciousSpan(0, 3, 0.91, "order"),)
    stored = StoredChunk("d", 0, taken.text, "docs", suspicious=taken.suspicious)
    (told,) = wire.passage_message(stored).suspicious_spans
    assert (told.start, told.end, round(told.score, 2), told.kind) == (0, 3, 0.91, "order")


@pytest.mark.parametrize(
    "spans",
    [
        [{"start": -1, "end": 3}],
        [{"start": 3, "end": 3}],
        [{"start": 0, "end": 13}],
        [{"start": 0, "end": 3, "score": 1.5}],
        [{"start": 0, "end": 3}] * 21,
    ],
)
def test_marks_that_are_none_of_the_text_are_refused(spans):
    with pytest.raises(InvalidField, match="suspicious_spans"):
        wire.chunk(sent(*spans))


def test_what_the_scan_said_comes_in_and_goes_out_with_the_passage():
    taken = wire.chunk(pb.Chunk(text="pay", dense=[1.0], scan=pb.Scan(version="a1", score=0.55)))
    assert taken.scan == Scan("a1", 0.55)
    told = wire.passage_message(StoredChunk("d", 0, "pay", "docs", scan=taken.scan))
    assert (told.scan.version, round(told.scan.score, 2)) == ("a1", 0.55)


def test_what_was_not_scanned_says_so_whatever_its_metadata_claim():
    assert wire.chunk(pb.Chunk(text="pay", dense=[1.0])).scan == UNSCANNED
    claims = {"scan": "a1", "scan_version": "a1", "scan_score": "0"}
    assert not wire.passage_message(StoredChunk("d", 0, "pay", "docs", metadata=claims)).HasField("scan")


@pytest.mark.parametrize("scan", [{"version": ""}, {"version": "v" * 1_000}, {"version": "a", "score": 1.5}])
def test_a_scan_by_nobody_or_with_no_proper_score_is_refused(scan):
    with pytest.raises(InvalidField, match=r"chunk\.scan"):
        wire.chunk(pb.Chunk(text="pay", dense=[1.0], scan=pb.Scan(**scan)))
