"""Wall clocks that jump: of one process, as on a machine whose clock was wrong, and of all at once."""

import asyncio
import itertools
import time

import pytest

from tests.chaos.stack import PROCESSES, ChaosStack
from tests.chaos.watching import survived

# Starting the stack is not counted in.
pytestmark = pytest.mark.timeout(300, func_only=True)
_SEEDS = itertools.count(201)
FAULT_SECONDS = 3.0
# An identity is good for fifteen minutes: what is under way when all clocks jump outlives it.
STEP_SECONDS = 600
# The day's tokens are those of a day; a jump into another one begins a new account, and rightly so.
_DAY_SECONDS = 86_400


# Back again at the end: each jump is tried in both directions.
CASES = [*((name, "forward") for name in PROCESSES), ("all", "forward"), ("all", "back")]


@pytest.mark.parametrize(("whose", "direction"), CASES)
def test_a_clock_that_jumps_is_not_noticed(stack: ChaosStack, whose: str, direction: str) -> None:
    if not stack.clocks.environment:
        pytest.skip("clocks are set by a library that needs a C compiler and x86-64 Linux")
    step = STEP_SECONDS if direction == "forward" else -STEP_SECONDS
    now = time.time() % _DAY_SECONDS
    if not 60 < now + step < _DAY_SECONDS - 60:
        pytest.skip("it would be another day")
    names = () if whose == "all" else (whose,)
    fault = f"clock {direction}"
    breaking = lambda: stack.clocks.stepped(step, names)  # noqa: E731
    verdict = asyncio.run(survived(stack, whose, fault, breaking, FAULT_SECONDS, next(_SEEDS)))
    print(verdict)
    assert not verdict.broken, str(verdict)
    assert not verdict.hurt, "; ".join(verdict.hurt)
