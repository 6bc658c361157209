"""What a measurement must say of the machine that it was made on."""

import os
import platform
from datetime import UTC, datetime
from typing import Any

from loadtests.offering.samples import machine, revision


def facts() -> dict[str, Any]:
    """Processor, cores, memory, versions, and the revision of the code."""
    versions = {"kernel": platform.release(), "python": platform.python_version()}
    return {**machine(), **versions, "revision": revision()}


def moment() -> dict[str, Any]:
    """When, and how many processes wanted a core then: above the cores, times are noise and only ratios compare."""
    return {"at": datetime.now(UTC).isoformat(timespec="minutes"), "load": round(os.getloadavg()[0], 1)}
