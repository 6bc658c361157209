"""Every process is replaced under load, one after the other, as a rollout does it: no stream is cut."""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.stack import ChaosStack
from tests.chaos.watching import survived

# Starting the stack is not counted in.
pytestmark = pytest.mark.timeout(300, func_only=True)
_SEEDS = itertools.count(301)
# Of these another process begins before one ends. The others own their data alone here: they are away for a moment.
DOUBLED = ("gateway", "orchestrator", "embedding", "reranking", "sql_tool", "web_tool", "tool_cache", "understudy")
ALONE = ("retrieval", "ingestion", "evaluation", "valkey", "postgres")
_RESTART_SECONDS = 90


@contextmanager
def replaced(stack: ChaosStack, service: str) -> Iterator[None]:
    """A second process takes over, the first is told to end and begins anew, and then the second ends."""
    with stack.doubled(service):
        stack.leave_out(service, stack.ports[service])
        restart(stack, service)
        stack.take_in(service, stack.ports[service])
    yield


@contextmanager
def restarted(stack: ChaosStack, service: str) -> Iterator[None]:
    restart(stack, service)
    yield


def restart(stack: ChaosStack, service: str) -> None:
    """Told to end as an installation is; supervisord starts it again."""
    before = stack.pids()[service]
    os.kill(before, signal.SIGINT if service == "postgres" else signal.SIGTERM)
    deadline = time.monotonic() + _RESTART_SECONDS
    while stack.pids()[service] in (0, before):
        assert time.monotonic() < deadline, f"{service} does not end"
        time.sleep(0.05)
    stack.until_serving(service)


@pytest.mark.parametrize("service", [*DOUBLED, *ALONE])
def test_a_process_is_replaced_and_no_stream_is_cut(stack: ChaosStack, service: str) -> None:
    replacing = replaced if service in DOUBLED else restarted
    verdict = asyncio.run(
        survived(stack, service, "restart", lambda: replacing(stack, service), 0.0, next(_SEEDS), streams_go_on=True)
    )
    print(verdict)
    assert not verdict.broken, str(verdict)
    if service in DOUBLED:
        assert not verdict.hurt, "; ".join(verdict.hurt)
