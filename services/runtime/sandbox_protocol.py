"""What a sandbox and its server say to each other; imports nothing that a forked process should not hold."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

# Bytes and keyword arguments in, rows out: each a value that JSON can hold.
Function = Callable[..., Iterable[Any]]

LARGEST_REQUEST_BYTES = 16 * 1024
# How a child ends that ran out of memory.
OUT_OF_MEMORY = 3


class Refused(Exception):
    """Raised by the function: it will not do it. The message is for whoever called, and crosses over as it is."""


@dataclass(frozen=True)
class Request:
    """Arguments of the function besides the bytes, address space in bytes, and processor seconds."""

    arguments: dict[str, Any]
    memory_bytes: int
    cpu_seconds: int
