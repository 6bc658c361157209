"""What a measurement must say of the machine that it was made on."""

import os
import platform
from datetime import UTC, datetime
from typing import Any

from loadtests.offering.samples import machine, revision


def facts() -> dict[str, Any]:
    """Processor, cores, memory, versions."""
    return {**machine(), "kernel": platform.release(), "python": platform.python_version()}


def moment() -> dict[str, Any]:
    """When, of which code, and how many processes wanted a core then: above the cores, only ratios compare."""
    at, load = datetime.now(UTC).isoformat(timespec="minutes"), round(os.getloadavg()[0], 1)
    return {"at": at, "revision": revision(), "load": load}
