"""Talks to our supervisord over its socket: what runs, and stopping it quickly."""

import contextlib
import http.client
import os
import signal
import time
import xmlrpc.client
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from supervisor.xmlrpc import SupervisorTransport

# supervisord gives a process 8 s to stop; the rest is for itself.
_STOP_SECONDS = 40


@dataclass(frozen=True)
class Program:
    """A process as supervisord sees it. `pid` is 0 when it does not run."""

    name: str
    state: str
    pid: int
    description: str

    def memory_bytes(self) -> int:
        """Proportional set size, children included."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            return sum(one.memory_full_info().pss for one in [process, *process.children(recursive=True)])
        return 0


class Supervisor:
    """The supervisord of one home folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen = False

    def pid(self) -> int | None:
        """Its process id; None when it does not run."""
        try:
            pid = int((self._home / "supervisord.pid").read_text())
            runs = "supervisord" in " ".join(psutil.Process(pid).cmdline())
        except (OSError, ValueError, psutil.Error):
            return None
        self._seen = self._seen or runs
        return pid if runs else None

    def has_ended(self) -> bool:
        """Whether it ran when this was asked before, and does not now."""
        return self.pid() is None and self._seen

    def programs(self) -> list[Program]:
        """All processes by name; none when supervisord does not answer."""
        found: list[dict[str, Any]] = self._ask(lambda api: api.getAllProcessInfo()) or []
        return [Program(one["name"], one["statename"], one["pid"], one["description"]) for one in found]

    def stop(self) -> bool:
        """Ends supervisord and all that it runs, all at once; True when it was running."""
        pid = self.pid()
        if pid is None:
            return False
        # Left to itself supervisord stops them one after the other.
        self._ask(lambda api: api.stopAllProcesses(False))
        self._until(lambda: all(not one.pid for one in self.programs()))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        self._until(lambda: not psutil.pid_exists(pid))
        return True

    def _until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        while not done() and time.monotonic() < deadline:
            time.sleep(0.1)

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self._home}/s.sock")
        with (
            contextlib.suppress(OSError, http.client.HTTPException, xmlrpc.client.Error),
            contextlib.closing(transport),
        ):
            return question(xmlrpc.client.ServerProxy("http://127.0.0.1", transport).supervisor)
        return None
