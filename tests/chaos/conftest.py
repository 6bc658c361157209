"""The faults suite: `make chaos`. Without it only its own parts are tested.

TEST_CHAOS is where the figures of the runs are appended, one JSON line a fault.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.stack import ChaosStack, chaos_stack
from tests.chaos.watching import prepare

_WANTED = os.environ.get("TEST_CHAOS", "")
_WITHOUT = {"test_tcp_proxy.py", "test_verdict.py"}
collect_ignore = [
    path.name for path in Path(__file__).parent.glob("test_*.py") if not _WANTED and path.name not in _WITHOUT
]


@pytest.fixture(scope="session")
def stack() -> Iterator[ChaosStack]:
    """One for all faults: each must leave it as it was."""
    with chaos_stack() as running:
        asyncio.run(prepare(running))
        yield running
