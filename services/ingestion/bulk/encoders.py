"""Embedding services that a run brings with it: one process each, for as long as the Ray actor that holds it lives."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping

from services.ingestion.bulk.config import Settings
from services.runtime.errors import DependencyFailed

# A large model takes its time to load.
_STARTS_WITHIN_SECONDS = 600
# Ends with its parent, whatever ends that: nobody would look after it. (PR_SET_PDEATHSIG, SIGKILL)
_START = (
    "import ctypes, runpy; ctypes.CDLL(None).prctl(1, 9);"
    " runpy.run_module('services.embedding.server', run_name='__main__', alter_sys=True)"
)


class Encoder:
    """The embedding service itself, in a process of its own on this node: its vectors are those of the service.

    It takes the share of a GPU that Ray gave to the actor, by the variables that Ray sets.
    """

    def __init__(self, settings: Settings, host: str) -> None:
        """`host`: address of this node. Returns when it answers. Raises DependencyFailed."""
        port = _free_port(host)
        environment = _environment(settings, host, port)
        self._process = subprocess.Popen([sys.executable, "-c", _START], env=environment)
        self.address = f"{host}:{port}"
        ends = time.monotonic() + _STARTS_WITHIN_SECONDS
        while not _listens(host, port):
            if (status := self._process.poll()) is not None:
                raise DependencyFailed(f"The encoder ended with status {status}.", dependency="embedding")
            if time.monotonic() > ends:
                self.close()
                raise DependencyFailed("The encoder did not start in time.", dependency="embedding")
            time.sleep(0.1)

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()


def _environment(settings: Settings, host: str, port: int) -> Mapping[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")}
    secrets = {
        "SABUESO_IDENTITY_SECRET": settings.identity_secret.get_secret_value(),
        "SABUESO_IDENTITY_SECRET_FALLBACKS": settings.identity_secret_fallbacks.get_secret_value(),
    }
    place = {"SABUESO_HOST": host, "SABUESO_PORT": str(port), "SABUESO_METRICS_PORT": "0"}
    return inherited | settings.encoder_variables | secrets | place


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _listens(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False
