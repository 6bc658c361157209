"""Fixtures that several journeys share."""

import contextlib
import uuid
from collections.abc import Iterator

import pytest

from services.runtime.sandbox import Sandbox
from services.runtime.testing import act_as


@pytest.fixture
def tenant() -> str:
    """A tenant that nobody else has; the test acts for it."""
    name = f"t{uuid.uuid4().hex[:8]}"
    act_as(name)
    return name


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Makes text of pages."""
    with contextlib.closing(
        Sandbox("services.web_tool.extraction:extract", memory_bytes=512 * 2**20, timeout_seconds=6)
    ) as made:
        yield made
