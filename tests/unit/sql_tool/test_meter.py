"""What a database sends is cut and dropped as it arrives, whatever pieces it arrives in."""

import asyncio
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.sql_tool.meter import CUT_MARK, Meter


class Sink(asyncio.Protocol):
    """Keeps what arrives, and the largest piece of it."""

    def __init__(self):
        self.received = bytearray()

    def data_received(self, data):
        self.received += data


class Socket:
    """A transport that notes whether it was cut."""

    aborted = False

    def abort(self):
        self.aborted = True


def row_of(cells):
    body = struct.pack("!H", len(cells))
    for cell in cells:
        body += struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell
    return b"D" + struct.pack("!I", len(body) + 4) + body


def message(kind, body=b""):
    return kind + struct.pack("!I", len(body) + 4) + body


def parsed(stream):
    """Messages as (kind, body or cells)."""
    found, at = [], 0
    while at < len(stream):
        kind, length = stream[at : at + 1], struct.unpack_from("!I", stream, at + 1)[0]
        body = bytes(stream[at + 5 : at + 1 + length])
        found.append((kind, cells_of(body) if kind == b"D" else body))
        at += 1 + length
    return found


def cells_of(body):
    (count,), at, cells = struct.unpack_from("!H", body), 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        cells.append(None if length < 0 else body[at : at + length])
        at += max(0, length)
    assert at == len(body)
    return cells


def passed(stream, sizes, **bounds):
    sink, socket = Sink(), Socket()
    meter = Meter(sink, socket)
    meter.bound(**bounds)
    at = 0
    while at < len(stream):
        size = sizes[at % len(sizes)]
        meter.data_received(bytes(stream[at : at + size]))
        at += size
    return sink.received, meter, socket


def cut(cell, cell_bytes):
    if cell is None or len(cell) <= cell_bytes:
        return cell
    return cell[:cell_bytes].decode(errors="ignore").encode() + CUT_MARK.encode()


CELLS = st.lists(st.none() | st.text(max_size=30).map(lambda text: text.replace("\0", "").encode()), max_size=5)
SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=7)


@given(st.lists(CELLS, max_size=6), SIZES, st.integers(2, 20))
@example([["a€".encode() * 9]], [1], 4)
def test_values_are_cut_on_a_character_and_nothing_else_changes(rows, sizes, cell_bytes):
    stream = message(b"2") + b"".join(map(row_of, rows)) + message(b"C", b"SELECT 1\0") + message(b"Z", b"T")
    received, meter, _ = passed(stream, sizes, cell_bytes=cell_bytes)
    even = cell_bytes & ~1
    wanted = [(b"D", [cut(cell, even) for cell in row]) for row in rows]
    assert parsed(received) == [(b"2", b""), *wanted, (b"C", b"SELECT 1\0"), (b"Z", b"T")]
    assert not meter.exhausted


@given(st.lists(CELLS, min_size=1, max_size=8), SIZES, st.integers(0, 200))
def test_rows_beyond_the_budget_are_dropped_from_the_first_on(rows, sizes, budget):
    stream = b"".join(map(row_of, rows)) + message(b"Z", b"T")
    received, meter, _ = passed(stream, sizes, row_bytes=budget)
    messages = parsed(received)
    assert messages[-1] == (b"Z", b"T")
    kept = messages[:-1]
    assert kept == [(b"D", row) for row in rows[: len(kept)]]
    assert meter.exhausted == (len(kept) < len(rows))
    assert sum(len(row_of(cells)) for _, cells in kept) <= budget + 5 * len(kept)


def test_what_passes_unchanged_is_not_copied():
    stream = row_of([b"abc"]) + message(b"Z", b"T")
    given_on = []
    sink = Sink()
    sink.data_received = given_on.append
    Meter(sink, Socket()).data_received(stream)
    assert given_on[0] is stream


@pytest.mark.parametrize("kind", [b"E", b"N", b"T"])
def test_a_long_message_that_is_no_row_cuts_the_connection(kind):
    stream = message(kind, b"x" * 2_000_000)
    received, meter, socket = passed(stream, [65536])
    assert meter.overflowed
    assert socket.aborted
    assert received == b""


def test_a_value_that_never_ends_cuts_the_connection_and_takes_no_memory():
    sink, socket = Sink(), Socket()
    meter = Meter(sink, socket)
    meter.bound(cell_bytes=1000, row_bytes=10_000)
    meter.data_received(b"D" + struct.pack("!IHi", 2**31 - 1, 1, 2**31 - 11))
    for _ in range(2000):
        meter.data_received(b"x" * 65536)
        if socket.aborted:
            break
    assert socket.aborted
    assert len(sink.received) == 0


def test_a_new_bound_begins_anew():
    sink = Sink()
    meter = Meter(sink, Socket())
    meter.bound(row_bytes=0)
    meter.data_received(row_of([b"x"]))
    assert meter.exhausted
    meter.bound()
    meter.data_received(row_of([b"y"]))
    assert not meter.exhausted
    assert parsed(sink.received) == [(b"D", [b"y"])]
