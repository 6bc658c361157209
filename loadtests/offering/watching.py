"""Reads what the processes of a stack on this machine hold while it is under load."""

import contextlib
from pathlib import Path

import psutil

from loadtests.offering.connections import Broken, Connections
from loadtests.offering.samples import Watched

_LEASES = "sabueso_gateway_limiter_active_leases"


class Watcher:
    """`home`: the stack's folder, None where its processes are out of reach."""

    def __init__(self, home: Path | None, connections: Connections) -> None:
        self._home = home
        self._connections = connections

    def read(self, at: float) -> list[Watched]:
        """A reading of each process at `at` seconds; the gateway's has the leases."""
        leases = self.leases()
        found = [self._process(at, name, pid, leases) for name, pid in self._programs()]
        return found or ([] if leases is None else [Watched(at, "gateway", leases=leases)])

    def leases(self) -> int | None:
        """Requests that hold a lease of the limiter; None where the gateway does not show its metrics."""
        try:
            with self._connections.ask("GET", "/metrics", "") as reply:
                text = reply.body().decode(errors="replace")
        except Broken:
            return None
        lines = [line for line in text.splitlines() if line.startswith(_LEASES)]
        return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines)) if lines else None

    def _programs(self) -> list[tuple[str, int]]:
        if self._home is None:
            return []
        # Of the local stack, which an image for clusters does not hold.
        from local.supervisor import Supervisor

        return [(one.name, one.pid) for one in Supervisor(self._home).programs() if one.pid]

    def _process(self, at: float, name: str, pid: int, leases: int | None) -> Watched:
        memory = descriptors = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    memory += one.memory_info().rss
                    descriptors += one.num_fds()
        return Watched(at, name, memory or None, descriptors or None, leases if name == "gateway" else None)
