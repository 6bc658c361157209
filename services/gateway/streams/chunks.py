"""Which events of a model's stream the client gets: all as they came, but for a usage that only we asked for."""

import re
from collections.abc import Iterable

from services.gateway.metering import Meter
from services.gateway.streams.framing import Event
from services.gateway.streams.members import without
from services.gateway.streams.reading import Said, note_origin, read

_LAST_USAGE = re.compile(rb',"usage":(?:null|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})\}')


class ChunkRelay:
    """The events of one stream, in order. Tells the meter what they say."""

    def __init__(self, meter: Meter, *, hides_usage: bool = False) -> None:
        self._meter = meter
        self._hides_usage = hides_usage
        # The model said that this was all.
        self.done = False
        # The model sent an error of its own, which the client has seen.
        self.failed = False
        self._open: set[int] = set()
        self._finished = False
        self._dropped = False

    @property
    def complete(self) -> bool:
        """Nothing is missing: the end was said, or every choice that began has finished."""
        return self.done or (self._finished and not self._open)

    def passed(self, events: Iterable[Event]) -> bytes:
        """Their bytes. Once the stream is done or has failed nothing follows: it must not look like a success then."""
        out = b""
        for event in events:
            if event.tail:
                out += b"" if self._dropped else event.raw
                continue
            if self.done or self.failed:
                self._dropped = True
                continue
            said = read(event.data)
            self._note(said)
            out += self._shown(event, said)
        return out

    def ended(self, rest: Event | None) -> bytes:
        """Bytes of what came without a blank line before the end. Half an event is not passed on."""
        if rest is None or read(rest.data).garbled:
            return b""
        return self.passed([rest])

    def _note(self, said: Said) -> None:
        self.done, self.failed = said.done, said.error is not None
        if said.begun:
            self._open.update(said.begun)
        if said.finished:
            self._open.difference_update(said.finished)
            self._finished = True
            self._meter.finish_reasons += said.finish_reasons
        if said.usage is not None:
            self._meter.usage(*said.usage)
        elif said.tokens:
            self._meter.delivered(said.tokens)
        if not self._meter.response_id and said.parsed is not None:
            note_origin(self._meter, said.parsed.get("response", said.parsed))

    def _shown(self, event: Event, said: Said) -> bytes:
        self._dropped = self._hides_usage and said.usage_only
        if self._dropped:
            return b""
        if self._hides_usage and event.data is not None and said.parsed is not None and "usage" in said.parsed:
            return event.with_data(_without_usage(event.data)).raw
        return event.raw


def _without_usage(data: bytes) -> bytes:
    at = data.rfind(b',"usage":')
    # Nearly always it is the last member, and what follows it can end nothing but the outermost object.
    return data[:at] + b"}" if at >= 0 and _LAST_USAGE.fullmatch(data, at) else without(data, "usage")
