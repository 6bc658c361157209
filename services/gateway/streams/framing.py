"""Server-Sent Events cut out of bytes, whatever the pieces in which these arrive.

WHATWG HTML §9.2.6: lines end with LF, CRLF or CR, a blank line ends an event. Data are not decoded here: a character
cut in two by the network is whole again in its event.
"""

import re
from typing import NamedTuple

MOST_EVENT_BYTES = 4 * 1024 * 1024

# Atomic: CRLF is one end of line and never two.
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LONGEST_END = 4
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """An event, or a line, of more bytes than are kept."""


class Event(NamedTuple):
    """One event."""

    raw: bytes  # as it came, with the blank line
    data: bytes | None  # its data lines, joined by LF; None when it has none (comments)
    # A LF that came after the CR by which the event before was known to have ended; belongs to that event.
    tail: bool = False

    def with_data(self, data: bytes) -> "Event":
        """The event with other data, and whatever else it had."""
        if (
            self.data is not None
            and len(self.raw) == len(self.data) + 8
            and self.raw.endswith(b"\n\n")
            and b"\n" not in data
        ):
            return Event(b"data: " + data + b"\n\n", data)  # as nearly every event is written
        text = self.raw.removeprefix(_BOM)
        found = _LINE_END.search(text)
        eol = found.group() if found else b"\n"
        kept = [line for line in text.splitlines() if line and not _is_data(line)]
        lines = [*kept, *(b"data: " + line for line in data.split(b"\n"))]
        # Of a last CRLF that came in two, the LF follows as the tail.
        end = b"\r\n\r" if eol == b"\r\n" and self.raw.endswith(b"\r") else eol + eol
        return Event(self.raw[: len(self.raw) - len(text)] + eol.join(lines) + end, data)


class Framer:
    """Takes pieces and gives events; holds back at most one unfinished event."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held = bytearray()
        self._searched = 0
        self._first = True
        self._after_cr = False

    def feed(self, piece: bytes) -> list[Event]:
        """Events that are complete now. Raises EventTooLarge."""
        events: list[Event] = []
        if self._after_cr and piece:
            self._after_cr = False
            if piece.startswith(b"\n"):
                events.append(Event(b"\n", None, tail=True))
                piece = piece[1:]
        if self._held or b"\r" in piece:
            self._search(piece, events)
        else:
            start = 0
            while (end := piece.find(b"\n\n", start) + 2) > 1:
                events.append(self._event(piece[start:end]))
                start = end
            if start < len(piece):
                self._held += piece[start:]
        if len(self._held) > self._most_bytes:
            raise EventTooLarge
        return events

    def end(self) -> Event | None:
        """What came without its blank line; the stream has ended."""
        rest = bytes(self._held)
        self._held.clear()
        return self._event(rest) if rest else None

    def _search(self, piece: bytes, events: list[Event]) -> None:
        held = self._held
        held += piece
        start, at = 0, max(0, self._searched - _LONGEST_END)
        while found := _EVENT_END.search(held, at):
            events.append(self._event(bytes(held[start : found.end()])))
            start = at = found.end()
        self._after_cr = start == len(held) and bool(start) and held.endswith(b"\r")
        if start:
            del held[:start]
        self._searched = len(held)

    def _event(self, raw: bytes) -> Event:
        if self._first:
            self._first = False
            return Event(raw, _data_of(raw.removeprefix(_BOM)))
        return Event(raw, _data_of(raw))


def _data_of(raw: bytes) -> bytes | None:
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
        return raw[6:-2]  # what nearly every event looks like
    lines = [line[5:].removeprefix(b" ") for line in raw.splitlines() if _is_data(line)]
    return b"\n".join(lines) if lines else None


def _is_data(line: bytes) -> bool:
    return line.startswith(b"data:") or line == b"data"
