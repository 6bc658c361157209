"""The process that makes the load, collects what became of it, and judges: the only one, or Locust's master."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gevent

from loadtests.offering.connections import Connections
from loadtests.offering.documents import Documents
from loadtests.offering.plan import Load
from loadtests.offering.samples import Finding, Run, sample_of
from loadtests.offering.target import Target
from loadtests.offering.trend import leaks
from loadtests.offering.verdict import judge, table
from loadtests.offering.watching import Watcher

# Beyond the load's end and its longest answer: for the last reports to come in.
_SLACK_SECONDS = 20
_LEASES_SECONDS = 10


class Leader:
    """`folder`: where the run is kept."""

    def __init__(self, load: Load, goal: Target, folder: Path) -> None:
        self.load = load
        self.folder = folder
        self.run = Run(load, goal.url)
        self.clients: list[str] = []
        self._done: dict[str, Mapping[str, Any]] = {}
        self._lost: set[str] = set()
        self._goal = goal
        self._began = time.monotonic()
        self._connections = Connections(goal.url, goal.ca_file)
        self._watcher = Watcher(goal.home, self._connections)
        self._documents = Documents(self._connections, goal.keys.get("second", ""), load.document_pages)
        self._beside: list[Any] = []

    def start(self, clients: Sequence[str]) -> None:
        """The run begins, with these processes offering it."""
        self.clients = list(clients)
        self.run.workers = len(clients)
        self._began = time.monotonic()
        if self.load.watched_every_seconds:
            self._beside.append(gevent.spawn(self._watch))
        if self.load.documents_from is not None:
            self._beside.append(gevent.spawn(self._index, self.load.documents_from))

    def take(self, client: str, told: Mapping[str, Any]) -> None:
        """What a process reports."""
        self.run.samples += [sample_of(one) for one in told["samples"]]
        if told["done"]:
            self._done[client] = told

    def lose(self, client: str) -> None:
        """A process is gone; what it had not offered is missing."""
        if client not in self._done:
            self._lost.add(client)

    def over(self) -> bool:
        """Whether all was offered, or never will be."""
        if not self.clients:
            return False
        return {*self._done, *self._lost} >= set(self.clients) or self._seconds() > self._latest()

    def whole(self) -> bool:
        """Whether every process offered its share to the end."""
        return bool(self.clients) and set(self._done) >= set(self.clients)

    def close(self) -> None:
        """Ends what ran beside the questions, judges, and writes the folder."""
        self._settle()
        self.run.findings = judge(self.load, self.run.samples) + self._of_processes() + self._of_documents()
        if self.load.watched_every_seconds:
            self.run.findings += leaks(self.run.watched, self.load.seconds, here=self._goal.home is not None)
        self.run.write(self.folder)

    def text(self) -> str:
        """The table, and what the load cost this side."""
        requests = sum(one["requests"] for one in self._done.values())
        cpu = sum(one["cpu_seconds"] for one in self._done.values())
        cost = f"\n{requests} requests, {1000 * cpu / requests:.1f} ms of CPU each on this side" if requests else ""
        return table(self.load, self.run.samples, self.run.findings) + cost

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _latest(self) -> float:
        return self.load.seconds + self.load.longest_seconds + _SLACK_SECONDS

    def _watch(self) -> None:
        while True:
            self.run.watched += self._watcher.read(self._seconds())
            gevent.sleep(self.load.watched_every_seconds)

    def _index(self, begins: float) -> None:
        gevent.sleep(max(0.0, begins - self._seconds()))
        self._documents.index_until(lambda: self._seconds() > self.load.seconds)

    def _settle(self) -> None:
        if self.load.documents_from is not None:
            gevent.joinall(self._beside, timeout=60)
            self.run.documents = self._documents.told()
        gevent.killall(self._beside)
        if self.load.watched_every_seconds:
            end = time.monotonic() + _LEASES_SECONDS
            while self._watcher.leases() and time.monotonic() < end:
                gevent.sleep(0.2)
            self.run.watched += self._watcher.read(self._seconds())
        self._connections.close()

    def _of_processes(self) -> list[Finding]:
        missing = [one for one in self.clients if one not in self._done]
        found = [Finding("", "workers", True, f"{one} was lost before it offered its share") for one in missing]
        problems = sorted({str(one["problem"]) for one in self._done.values() if one["problem"]})
        found += [Finding("", "workers", True, f"a process could not offer its share: {one}") for one in problems]
        if not self.clients:
            found.append(Finding("", "workers", True, "nothing was offered: no worker came"))
        return found

    def _of_documents(self) -> list[Finding]:
        if self.load.documents_from is None:
            return []
        told = self._documents.told()
        failed = not told["ready"] or bool(told["problems"])
        text = f"{told['ready']} documents of {self.load.document_pages} pages were indexed beside the questions"
        return [Finding("", "documents", failed, "; ".join([text, *told["problems"][:3]]))]
