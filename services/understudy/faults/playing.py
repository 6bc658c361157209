"""Plays a script on a connection."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from services.understudy.faults import answers
from services.understudy.faults.connection import Connection
from services.understudy.faults.script import Script

_LONG_PIECE = 64 * 1024
_BOM = "\ufeff"


class Performance:
    """One script on one connection; counts what has gone out."""

    def __init__(self, script: Script, connection: Connection, go_on: asyncio.Event) -> None:
        self._script = script
        self._connection = connection
        self._go_on = go_on
        self.sent_bytes = 0
        self.sent_events = 0

    async def play(self, path: str, asked: Mapping[str, Any]) -> None:
        """The whole answer. Raises ClientGone."""
        script, connection = self._script, self._connection
        match script.before:
            case "close":
                return connection.close()
            case "reset":
                return connection.reset()
            case "silence":
                await connection.gone.wait()
                return None
            case "answer":
                pass
        await asyncio.sleep(script.headers_delay_seconds)
        if script.hold_headers:
            await self._go_on.wait()
        if script.body is not None:
            return await self.send(script.body.encode(), script.content_type or "text/html; charset=utf-8")
        if script.status >= 400:
            body = answers.dumps(script.error or answers.error_body(script.status))
            return await self.send(body.encode(), script.content_type or "application/json")
        if asked.get("stream") is True:
            return await self._stream(path, asked)
        body = answers.dumps(answers.whole(script, path, asked)).encode()
        return await self.send(body, script.content_type or "application/json")

    async def send(self, body: bytes, content_type: str) -> None:
        """An answer in one piece, which `ending` may cut in its middle."""
        script = self._script
        framing = (
            "length" if script.framing == "chunked" and not (script.cut_at or script.write_bytes) else script.framing
        )
        cut = script.ending not in ("complete", "stop") or framing in ("short_length", "bad_chunk")
        await self._head(content_type, framing, len(body))
        for piece in _split(body[: len(body) // 2] if cut else body, script):
            await self._write(piece, framing)
        await self._end("close" if cut and script.ending in ("complete", "stop") else script.ending, framing)

    async def _stream(self, path: str, asked: Mapping[str, Any]) -> None:
        script = self._script
        framing = "chunked" if script.framing in ("length", "short_length") else script.framing
        await self._head(script.content_type or "text/event-stream; charset=utf-8", framing, 0)
        if script.cut_at:
            events = [event async for event in self._events(path, asked)]
            for piece in _split("".join(events).encode(), script):
                await self._write(piece, framing)
        else:
            async for event in self._events(path, asked):
                for piece in _split(event.encode(), script):
                    await self._write(piece, framing)
        await self._end(script.ending, framing)

    async def _events(self, path: str, asked: Mapping[str, Any]) -> AsyncGenerator[str]:
        script, stream = self._script, answers.Stream(self._script, path, asked)
        if script.bom:
            yield _BOM
        for event in stream.opening():
            yield self._event(event)
        await asyncio.sleep(script.first_chunk_delay_seconds)
        content = stream.content()
        async for event in self._paced(content):
            yield self._event(event)
            self.sent_events += 1
        if script.error is not None:
            yield self._event(answers.dumps(script.error))
            if script.done:
                yield self._event("[DONE]")
        elif script.ending == "complete":
            for event in stream.ending():
                yield self._event(event)
        elif script.ending == "half":
            yield self._event(next(content, '{"choices":[{"index":0,"delta":{"content":"half"}}]}'))[:24]

    async def _paced(self, content: Iterator[str]) -> AsyncGenerator[str]:
        script = self._script
        while script.after_chunks is None or self.sent_events < script.after_chunks:
            if script.hold_after == self.sent_events:
                await self._go_on.wait()
            event = next(content, None)
            if event is None:
                return
            if self.sent_events and script.chunk_delay_seconds:
                await asyncio.sleep(script.chunk_delay_seconds)
            yield event

    def _event(self, data: str) -> str:
        eol = self._script.eol
        # A line break is white space of JSON, outside of texts.
        lines = data.replace(',"choices":', ',\n"choices":').split("\n") if self._script.data_lines else [data]
        comment = f": note{eol}" if self._script.comments else ""
        return comment + "".join(f"data: {line}{eol}" for line in lines) + eol

    async def _head(self, content_type: str, framing: str, size: int) -> None:
        status = self._script.status
        headers = {"content-type": content_type, "server": "faults"}
        match framing:
            case "length":
                headers["content-length"] = str(size)
            case "short_length":
                headers["content-length"] = str(size + 100)
            case "close":
                headers["connection"] = "close"
            case _:
                headers["transfer-encoding"] = "chunked"
        headers |= {name.lower(): value for name, value in self._script.headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await self._connection.write(f"HTTP/1.1 {status} {_phrase(status)}\r\n{lines}\r\n".encode("latin-1"))

    async def _write(self, piece: bytes, framing: str) -> None:
        in_chunks = framing in ("chunked", "bad_chunk")
        await self._connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece)
        self.sent_bytes += len(piece)

    async def _end(self, ending: str, framing: str) -> None:
        connection = self._connection
        match ending:
            case "close" | "half":
                connection.close()
            case "reset":
                connection.reset()
            case "half_chunk":
                await connection.write(b"400\r\n: cut")
                connection.close()
            case "hang":
                await connection.gone.wait()
            case "long_line":
                await self._write(b"data: ", framing)
                for _ in range(self._script.long_line_bytes // _LONG_PIECE):
                    await self._write(b"a" * _LONG_PIECE, framing)
                connection.close()
            case _ if framing == "bad_chunk":
                await connection.write(b"no hexadecimal number\r\n")
            case _ if framing == "chunked":
                await connection.write(b"0\r\n\r\n")
            case _ if framing != "length":
                connection.close()
            case _:
                pass


def _split(body: bytes, script: Script) -> Iterator[bytes]:
    if script.cut_at:
        edges = [0, *sorted(at for at in script.cut_at if 0 < at < len(body)), len(body)]
        yield from (body[start:end] for start, end in itertools.pairwise(edges) if start < end)
    elif script.write_bytes:
        yield from (body[start : start + script.write_bytes] for start in range(0, len(body), script.write_bytes))
    elif body:
        yield body


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
