"""Bounds what a database may send: stands between socket and driver, cuts large values, drops rows beyond a budget.

The driver reads whole messages into memory before anybody can look at them, and one value may have a gigabyte. Here a
message is seen as it arrives. Layout of the messages: PostgreSQL's documentation, "Frontend/Backend Protocol".
"""

import asyncio
import struct
from typing import Any

# Ends a value that was cut. No text of PostgreSQL can hold it.
CUT_MARK = "\0"
_ROW = b"D"
_HEADER = struct.Struct("!cI")
_HEADER_BYTES = 5
# Descriptions, errors and notices; none of those that are of use is nearly as long.
_MAX_OTHER_BYTES = 1024 * 1024
# What is not wanted must still be read, up to here; then the connection is cut.
_MAX_SKIPPED_BYTES = 64 * 1024 * 1024
_UNBOUND = 64 * 1024 * 1024


class Meter(asyncio.Protocol):
    """Hands on to `protocol` what arrives at `transport`.

    `exhausted` becomes True when a row was dropped, `overflowed` when the connection was cut because of too much data.
    """

    def __init__(self, protocol: asyncio.Protocol, transport: asyncio.Transport) -> None:
        self._protocol = protocol
        self._transport = transport
        self._held = b""
        self._left = 0
        self._row: _Row | None = None
        self._cell_bytes = self._budget = _UNBOUND
        self._skipped = 0
        self.exhausted = False
        self.overflowed = False

    def bound(self, cell_bytes: int = _UNBOUND, row_bytes: int = _UNBOUND) -> None:
        """From now on values have at most `cell_bytes` and all rows together `row_bytes`, in PostgreSQL's text form."""
        self._cell_bytes = cell_bytes & ~1  # an even number of the digits of a bytea
        self._budget = row_bytes
        self._skipped = 0
        self.exhausted = False

    def data_received(self, data: bytes) -> None:
        """Hands on what may pass."""
        if self._held:
            data, self._held = self._held + data, b""
        passed = bytearray()
        at = mark = 0
        while at < len(data) and not self.overflowed:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                if self._row is not None:
                    passed += self._rebuild(self._row, data[at : at + step])
                    mark = at + step
                at += step
            elif len(data) - at < _HEADER_BYTES:
                passed += data[mark:at]
                self._held = data[at:]
                mark = at = len(data)
            else:
                if self._begin(*_HEADER.unpack_from(data, at)):
                    passed += data[mark:at]
                    mark = at + _HEADER_BYTES
                at += _HEADER_BYTES
        if self.overflowed:
            return
        # Most often nothing is held back, and then nothing is copied.
        whole = mark == 0 and not self._held
        self._protocol.data_received(data if whole else bytes(passed + data[mark:]))

    def _begin(self, kind: bytes, length: int) -> bool:
        """Looks at a message's header; True when the message does not pass as it is."""
        self._left = length - 4
        if kind != _ROW:
            if length > _MAX_OTHER_BYTES:
                self._overflow()
            return False
        if not self.exhausted and length <= min(self._cell_bytes, self._budget):
            self._budget -= length
            return False
        self._row = _Row(0 if self.exhausted else self._cell_bytes, self._budget)
        return True

    def _rebuild(self, row: "_Row", data: bytes) -> bytes:
        """The whole row when `data` is the last of it, cut; nothing when it is above the budget."""
        row.feed(data)
        if self._skipped + row.skipped > _MAX_SKIPPED_BYTES:
            self._overflow()
        if self._left:
            return b""
        self._row = None
        self._skipped += row.skipped
        if self.exhausted or row.too_large:
            self.exhausted = True
            return b""
        self._budget -= len(row.kept)
        return _HEADER.pack(_ROW, len(row.kept) + 4) + row.kept

    def _overflow(self) -> None:
        self.overflowed = True
        self._transport.abort()

    def eof_received(self) -> Any:
        """Hands on."""
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hands on."""
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Hands on."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Hands on."""
        self._protocol.resume_writing()


class _Row:
    """One row, rebuilt from its pieces with values of at most `cell_bytes`. Keeps no more than `budget` bytes."""

    def __init__(self, cell_bytes: int, budget: int) -> None:
        self._cell_bytes = cell_bytes
        self._budget = budget
        self._head = bytearray()
        self._head_bytes = 2  # the number of columns
        self._start = 0
        self._keep = self._skip = 0
        self.kept = bytearray()
        self.skipped = 0

    @property
    def too_large(self) -> bool:
        """Whether the row is above the budget even with its values cut."""
        return len(self.kept) > self._budget

    def feed(self, data: bytes) -> None:
        """The next bytes of the row."""
        at = 0
        while at < len(data):
            if self.too_large:
                self.kept = self.kept[: self._budget + 1]
                self.skipped += len(data) - at
                return
            if self._keep:
                piece = data[at : at + self._keep]
                self.kept += piece
                self._keep -= len(piece)
                at += len(piece)
            elif self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                self.skipped += step
                at += step
                if not self._skip:
                    self._end_cut()
            else:
                piece = data[at : at + self._head_bytes - len(self._head)]
                self._head += piece
                at += len(piece)
                if len(self._head) == self._head_bytes:
                    self._begin_field()

    def _begin_field(self) -> None:
        self.kept += self._head
        if self._head_bytes == 4:
            length = max(0, int.from_bytes(self._head, signed=True))  # -1 is NULL
            self._start = len(self.kept)
            self._keep = min(length, self._cell_bytes)
            self._skip = length - self._keep
        self._head_bytes = 4
        self._head = bytearray()

    def _end_cut(self) -> None:
        _drop_half_character(self.kept, self._start)
        self.kept += CUT_MARK.encode()
        self.kept[self._start - 4 : self._start] = (len(self.kept) - self._start).to_bytes(4)


def _drop_half_character(text: bytearray, start: int) -> None:
    """Takes away the last bytes from `start` on when they are the beginning of a character in UTF-8."""
    for back in range(1, min(4, len(text) - start) + 1):
        byte = text[-back]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            if back < length:
                del text[-back:]
            return
