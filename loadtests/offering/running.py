"""Locust runs a load: one user a process offers its share of the arrivals, the leader judges when all have ended.

The leader is the only process, or Locust's master: it makes the load and hands it to the workers with their start;
their samples come back with Locust's own reports.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

import gevent
from locust import LoadTestShape, User, events, task
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from loadtests.offering.leader import Leader
from loadtests.offering.options import Build, add_options, asked_of, load_of
from loadtests.offering.part import Part
from loadtests.offering.plan import BadPlan, Load
from loadtests.offering.samples import Sample
from loadtests.offering.target import NoTarget, target

_INTERRUPTED = 130
_WORKERS_SECONDS = 60
_REPORT = "sabueso"


class Problem(Exception):
    """What Locust counts as a failure."""


class Clock(User):
    """Asks whatever is due, whether or not earlier answers are there."""

    part: ClassVar[Part]

    @task
    def offer(self) -> None:
        """The whole share of this process; then it waits to be stopped."""
        environment: Any = self.environment
        options = environment.parsed_options
        clients: list[str] = options.sabueso_clients
        client = _client_id(environment)
        if client in clients:
            load = Load.model_validate_json(options.sabueso_load)
            self.part.offer(load, clients.index(client), len(clients))
        while True:
            gevent.sleep(60)


class UntilOffered(LoadTestShape):
    """One user a process, until all was offered."""

    leader: ClassVar[Leader]
    _users = 0

    def tick(self) -> tuple[int, float] | None:
        """Locust asks about once a second."""
        runner: Any = self.runner
        if not isinstance(runner, MasterRunner):
            self.leader.take(_LOCAL, Clock.part.report())
        else:
            for client in self.leader.clients:
                if client not in runner.clients or runner.clients[client].state == "missing":
                    self.leader.lose(client)
        if self.leader.over():
            return None
        self._users = self._users or _processes(runner)
        return (self._users, self._users) if self._users else None


_LOCAL = "local"


def offers(build: Build) -> None:
    """Makes the file that calls it a load file of Locust, together with Clock and UntilOffered in its namespace."""

    def extend(parser: Any, **_: Any) -> None:
        add_options(parser)

    def begin(environment: Environment, **_: Any) -> None:
        try:
            goal = target(os.environ)
            Clock.part = Part(goal, _told_to(environment))
            if isinstance(environment.runner, WorkerRunner):
                _serve(environment)
                return
            options: Any = environment.parsed_options
            if options.loglevel == "WARNING":
                # Locust's tables round and know no budgets; they are of level INFO.
                logging.getLogger("locust.stats_logger").setLevel(logging.WARNING)
            asked = asked_of(options)
            load = load_of(build, asked, goal)
            _lead(environment, Leader(load, goal, asked.folder(load.file, datetime.now())))
        except (BadPlan, NoTarget) as error:
            print(error, file=sys.stderr)
            raise SystemExit(2) from None

    _listen(events, init_command_line_parser=extend, init=begin)


def _listen(hooks: Any, **listeners: Callable[..., None]) -> None:
    for name, listener in listeners.items():
        getattr(hooks, name).add_listener(listener)


def _serve(environment: Environment) -> None:
    """As a worker: reports, and ends well when its share was offered, whatever the verdict on the load."""

    def report(data: dict[str, Any], **_: Any) -> None:
        data[_REPORT] = Clock.part.report()

    def end(environment: Environment, **_: Any) -> None:
        environment.process_exit_code = 0 if Clock.part.done and not Clock.part.problem else 1

    _listen(environment.events, report_to_master=report, quitting=end)


def _lead(environment: Environment, leader: Leader) -> None:
    UntilOffered.leader = leader

    def start(environment: Environment, **_: Any) -> None:
        runner: Any = environment.runner
        clients = [one.id for one in runner.clients.ready] if isinstance(runner, MasterRunner) else [_LOCAL]
        options: Any = environment.parsed_options
        options.sabueso_load, options.sabueso_clients = leader.load.model_dump_json(), clients
        leader.start(clients)

    def take(client_id: str, data: dict[str, Any], **_: Any) -> None:
        if _REPORT in data:
            leader.take(client_id, data[_REPORT])

    def judge(environment: Environment, **_: Any) -> None:
        # Whatever goes wrong from here on, it is no success.
        environment.process_exit_code = 1
        if not isinstance(environment.runner, MasterRunner):
            leader.take(_LOCAL, Clock.part.report())
        interrupted = bool(leader.clients) and not leader.over()
        leader.close()
        options: Any = environment.parsed_options
        if not options.no_report:
            _write_report(leader)
        environment.process_exit_code = _INTERRUPTED if interrupted else int(leader.run.failed)

    def show(**_: Any) -> None:
        print(f"{leader.text()}\nsamples and report: {leader.folder}", flush=True)

    _listen(environment.events, test_start=start, worker_report=take, quitting=judge, quit=show)


def _write_report(leader: Leader) -> None:
    """A report that cannot be written is said, and changes no verdict."""
    try:
        from loadtests.report import write

        write(leader.folder)
    except (ImportError, ValueError) as error:
        print(f"no report: {error}", file=sys.stderr)


def _told_to(environment: Environment) -> Callable[[Sample], None]:
    """Locust's statistics, for its own page and files: they round, and the verdict does not use them."""

    def tell(sample: Sample) -> None:
        if sample.warm_up:
            return
        hook: Any = environment.events.request
        hook.fire(
            request_type="refused" if sample.refused else "answer",
            name=sample.scenario,
            response_time=sample.milliseconds("answer"),
            response_length=0,
            exception=Problem(sample.problem) if sample.problem else None,
            context={},
        )

    return tell


def _client_id(environment: Environment) -> str:
    runner: Any = environment.runner
    return runner.client_id if isinstance(runner, WorkerRunner) else _LOCAL


def _processes(runner: Any) -> int:
    """How many offer the load: Locust's workers, the first of which is waited for."""
    if not isinstance(runner, MasterRunner):
        return 1
    end = time.monotonic() + _WORKERS_SECONDS
    while not runner.clients.ready and time.monotonic() < end:
        gevent.sleep(0.2)
    return len(runner.clients.ready)
