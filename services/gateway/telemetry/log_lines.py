"""Lines of the access log as JSON, written together: formatting and writing each alone costs 8 % of a request."""

import asyncio
import contextlib
import logging
import sys
import time
from typing import Any, TextIO

import orjson

# What a record has besides what was said in it.
_OF_RECORDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_WRITE_SECONDS, _MOST_LINES = 0.05, 500


class BufferedLines(logging.Handler):
    """Holds lines back for a twentieth of a second at most; `flush`, which Python calls at its exit, writes them."""

    def __init__(self, service: str, stream: TextIO) -> None:
        """`service`: the field of that name in each line, as in the lines of the other loggers."""
        super().__init__()
        self._service = service
        self._stream = stream
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._second, self._shown = 0, ""

    def emit(self, record: logging.LogRecord) -> None:
        """As logging's: what goes wrong here is no matter of the request's."""
        try:
            self._add(record)
        except Exception:
            self.handleError(record)

    def _add(self, record: logging.LogRecord) -> None:
        line: dict[str, Any] = {
            "time": self._time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "service": self._service,
        }
        for name, value in record.__dict__.items():
            if name not in _OF_RECORDS:
                line[name] = value
        self._lines.append(orjson.dumps(line, default=str))
        if len(self._lines) >= _MOST_LINES:
            self.flush()
        elif self._timer is None:
            self._wait()

    def flush(self) -> None:
        """Writes what is held back."""
        self.acquire()
        try:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            lines, self._lines = self._lines, []
            if lines:
                with contextlib.suppress(OSError, ValueError):  # nobody reads the log any more
                    self._stream.write(b"\n".join(lines).decode() + "\n")
                    self._stream.flush()
        finally:
            self.release()

    def _wait(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # nobody would call
            return self.flush()
        self._timer = loop.call_later(_WRITE_SECONDS, self.flush)

    def _time(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._second:
            self._second, self._shown = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._shown},{int(record.msecs):03d}"


def buffer(logger: logging.Logger, service: str) -> None:
    """Writes what `logger` says in this way, where the root logger writes it to stderr."""
    lines = BufferedLines(service, sys.stderr)
    for handler in logging.getLogger().handlers:
        for one in handler.filters:
            lines.addFilter(one)
    logger.addHandler(lines)
    logger.propagate = False
