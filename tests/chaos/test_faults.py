"""Each process killed, paused, slowed and cut off in turn, under load: what breaks is told, nothing stays broken."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.chaos.stack import PROCESSES, ChaosStack
from tests.chaos.watching import survived

# Starting the stack is not counted in.
pytestmark = pytest.mark.timeout(300, func_only=True)
_SEEDS = itertools.count(1)
FAULT_SECONDS = 4.0
# Beyond every deadline of a question.
_LONG_SECONDS = 12.0
_DELAY_SECONDS = 0.15


@contextmanager
def killed(stack: ChaosStack, service: str) -> Iterator[None]:
    stack.kill(service)
    yield
    stack.until_serving(service)


@contextmanager
def slowed(stack: ChaosStack, service: str) -> Iterator[None]:
    stack.proxies.delay(service, _DELAY_SECONDS)
    yield
    stack.proxies.delay(service, 0)


@contextmanager
def cut_off(stack: ChaosStack, service: str) -> Iterator[None]:
    stack.proxies.cut(service)
    yield
    stack.proxies.cut(service, ends=True)


@contextmanager
def silenced(stack: ChaosStack, service: str) -> Iterator[None]:
    stack.proxies.silence(service)
    yield
    stack.proxies.silence(service, ends=True)


@contextmanager
def paused(stack: ChaosStack, service: str) -> Iterator[None]:
    with stack.paused(service):
        yield


Breaking = Callable[[ChaosStack, str], AbstractContextManager[None]]
FAULTS: dict[str, tuple[Breaking, float]] = {
    "kill": (killed, 0.0),
    "pause": (paused, FAULT_SECONDS),
    "slow": (slowed, FAULT_SECONDS),
    "cut": (cut_off, FAULT_SECONDS),
    "silence": (silenced, _LONG_SECONDS),
}
# From outside most pauses look like silence; it is tried where the connections hold most.
SILENCED = ("gateway", "orchestrator", "retrieval", "understudy", "valkey", "postgres")
CASES = [(service, how) for service in PROCESSES for how in FAULTS if how != "silence" or service in SILENCED]


@pytest.mark.parametrize(("service", "how"), CASES)
def test_a_fault_is_told_and_leaves_nothing_behind(stack: ChaosStack, service: str, how: str) -> None:
    breaking, seconds = FAULTS[how]
    verdict = asyncio.run(survived(stack, service, how, lambda: breaking(stack, service), seconds, next(_SEEDS)))
    print(verdict)
    assert not verdict.broken, str(verdict)
