"""Starts the product's services for measuring: processes of their own, on free loopback ports, in a passing folder."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

_STOP_SECONDS = 10
_LOG_LINES = 15


class NotStarted(RuntimeError):
    """A service ended before it served. The message holds the end of its log."""


class Process:
    """One service. `address` is its host:port."""

    def __init__(self, service: str, address: str, running: "subprocess.Popen[bytes]", log: Path) -> None:
        self.service = service
        self.address = address
        self._running = running
        self._log = log

    def check(self) -> None:
        """Raises NotStarted when it has ended."""
        if (code := self._running.poll()) is not None:
            lines = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if self._log.exists() else []
            raise NotStarted(f"{self.service} ended with status {code}:\n" + "\n".join(lines))

    def stop(self) -> None:
        """Ends it, gently at first."""
        if self._running.poll() is None:
            self._running.send_signal(signal.SIGTERM)
            try:
                self._running.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._running.kill()
                self._running.wait()


class Processes:
    """All are stopped, and their folder is deleted, at the end of the `with` block."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(32)

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="sabueso-evaluation-"))
        self._started: list[Process] = []
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            for process in reversed(self._started):
                process.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, service: str, **settings: str | float) -> Process:
        """Starts `services.<service>.server` with these settings; it does not serve yet."""
        port = _free_port()
        own = {"host": "127.0.0.1", "port": port, "metrics_port": 0, "identity_secret": self.secret}
        # Settings of whoever calls this must not change what is measured; the model may be chosen.
        outside = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")}
        inside = {f"SABUESO_{name.upper()}": str(value) for name, value in (own | settings).items()}
        log = self.folder / f"{service}-{port}.log"
        with log.open("wb") as output:
            running = subprocess.Popen(
                [sys.executable, "-m", f"services.{service}.server"],
                env=outside | inside | {"SABUESO_LOG_LEVEL": "WARNING"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        process = Process(service, f"127.0.0.1:{port}", running, log)
        self._started.append(process)
        return process


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
