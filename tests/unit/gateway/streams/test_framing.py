"""Events come out the same whatever the pieces in which their bytes come in."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.streams.framing import Event, EventTooLarge, Framer

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.one_of(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20).map("data: {}".format),
    st.sampled_from(["data", "data:", "data:x", ": comment", "event: message", "id: 7", "retry: 10", "", "datax: 1"]),
)


@st.composite
def streams(draw):
    """Bytes of a stream: any lines, any ends of lines."""
    text = draw(st.sampled_from(["", "\ufeff"]))
    for line in draw(st.lists(LINES, max_size=12)):
        text += line + draw(ENDS)
    return (text + draw(st.sampled_from(["", "data: unfinished"]))).encode()


def framed(*pieces):
    framer = Framer()
    events = [event for piece in pieces for event in framer.feed(piece)]
    last = framer.end()
    return events, last


def data_of(events):
    return [event.data for event in events if event.data is not None]


def cut(text, edges):
    edges = [0, *sorted(edges), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def reference(text):
    """The algorithm of WHATWG HTML 9.2.6, line by line over the whole text."""
    events, lines = [], []
    for line in text.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True):
        if not line.endswith((b"\n", b"\r")):
            break
        line = line.rstrip(b"\r\n")
        if line:
            name, _, value = line.partition(b":")
            lines += [value.removeprefix(b" ")] if name == b"data" else []
        else:
            events += [b"\n".join(lines)] if lines else []
            lines = []
    return events


@settings(deadline=None, max_examples=150)
@given(streams(), st.data())
def test_any_split_gives_what_the_whole_gives(text, data):
    edges = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    events, last = framed(*cut(text, edges))
    assert data_of(events) == reference(text)
    assert b"".join(event.raw for event in events) + (last.raw if last else b"") == text
    assert (last.data if last else None) == (framed(text)[1].data if framed(text)[1] else None)


@settings(deadline=None, max_examples=50)
@given(streams())
def test_one_byte_at_a_time_gives_the_same(text):
    events, _ = framed(*(bytes([byte]) for byte in text))
    assert data_of(events) == reference(text)


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
def test_an_event_is_out_with_its_last_byte(eol):
    framer = Framer()
    for text in ("data: a", "data: b"):
        assert data_of(framer.feed(f"{text}{eol}{eol}".encode())) == [text[6:].encode()]


def test_a_late_lf_belongs_to_the_event_before():
    framer = Framer()
    assert [event.tail for event in framer.feed(b"data: a\r\n\r")] == [False]
    (tail, following) = framer.feed(b"\ndata: b\n\n")
    assert (tail.raw, tail.tail) == (b"\n", True)
    assert following.data == b"b"


def test_data_over_several_lines_are_one():
    (event,), _ = framed(b'event: x\ndata: {"a":\ndata: 1}\n\n')
    assert json.loads(event.data) == {"a": 1}


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_other_data_leave_the_rest_of_an_event(eol):
    bom = b"\xef\xbb\xbf"
    raw = bom + eol.join([b": note", b"id: 7", b"data: {", b"data: }", b"", b""])
    (event,), _ = framed(raw)
    changed = event.with_data(b"1\n2")
    assert changed == Event(bom + eol.join([b": note", b"id: 7", b"data: 1", b"data: 2", b"", b""]), b"1\n2")


@pytest.mark.parametrize("piece", [b"data: aaaa", b": aa", b"data: a\n"])
def test_an_endless_event_is_no_longer_kept(piece):
    framer = Framer(most_bytes=1000)

    def feed_on():
        while True:
            framer.feed(piece)

    with pytest.raises(EventTooLarge):
        feed_on()


def test_many_events_in_one_piece_may_be_more_than_one_may():
    events, _ = framed(b"data: a\n\n" * 1000 + b"data: \r\n\r\n" * 1000)
    assert len(events) == 2000
