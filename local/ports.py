"""Loopback ports that nobody uses."""

import contextlib
import random
import socket

# Below the range that the kernel takes for outgoing connections, so that a stopped service finds its port again.
_FIRST, _LAST = 17_000, 29_999


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def random_start() -> int:
    """Where to begin to look, with room above it."""
    return random.randint(_FIRST, _LAST - 1_000)


def pick(count: int, start: int = _FIRST) -> list[int]:
    """`count` free ports, lowest first from `start`."""
    found: list[int] = []
    for port in range(start, _LAST + 1):
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise OSError(f"fewer than {count} free ports between {start} and {_LAST}")
