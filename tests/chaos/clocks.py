"""A wall clock for each process of a stack, that can be set; needs a C compiler and x86-64 Linux."""

import os
import platform
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class Clocks:
    """`environment`: what processes are started with; empty where no clock can be set."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = names
        self.environment: dict[str, str] = {}
        compiler = shutil.which("cc")
        if compiler is None or platform.machine() != "x86_64":
            return
        folder.mkdir()
        folder.chmod(0o755)
        for name in names:
            self._set(name, 0)
        library = folder / "clock.so"
        options = ["-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-pthread"]
        if subprocess.run([compiler, *options], capture_output=True, check=False).returncode == 0:
            self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCKS": str(folder)}

    @contextmanager
    def stepped(self, seconds: int, names: Sequence[str] = ()) -> Iterator[None]:
        """The clocks of these processes, of all if none is named, jump by `seconds`; and back at the end."""
        for name in names or self._names:
            self._set(name, seconds)
        try:
            yield
        finally:
            for name in names or self._names:
                self._set(name, 0)

    def _set(self, name: str, seconds: int) -> None:
        # In place: the processes have mapped it.
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, struct.pack("q", seconds * 10**9), 0)
        os.close(descriptor)
