"""What the worst of files might make of a parser; the file says which."""

import ctypes
import os
import subprocess
import sys
import time

from services.ingestion.parsed import Block, Parsed, Unreadable
from services.ingestion.parsed_rows import in_rows


@in_rows
def parse(content: bytes, filename: str, content_type: str) -> Parsed:
    """Does what the first word of `content` says; the second is its argument."""
    what, _, argument = content.decode().partition(" ")
    return Parsed(blocks=(Block(_DEEDS[what](argument)),))


def _loop(argument: str) -> str:
    while True:
        pass


def _wait(argument: str) -> str:
    time.sleep(float(argument))
    return f"waited in {os.getpid()}"


def _eat(argument: str) -> str:
    eaten = []
    while True:
        eaten.append(bytearray(2**24))


def _write(argument: str) -> str:
    return "x" * int(argument)


def _fork(argument: str) -> str:
    """Leaves two processes behind, one of them in a session of its own, and writes down who they are."""
    sleep = (sys.executable, "-c", "import time; time.sleep(60)")
    kin = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
    return " ".join(str(process.pid) for process in kin)


def _fork_and_wait(argument: str) -> str:
    process = subprocess.Popen((sys.executable, "-c", f"import time; time.sleep(60)  # {argument}"))
    process.wait()
    return ""


def _fault(argument: str) -> str:
    return ctypes.string_at(0).decode()


def _refuse(argument: str) -> str:
    raise Unreadable(argument)


def _fail(argument: str) -> str:
    raise KeyError(argument)


def _recurse(argument: str) -> str:
    return _recurse(argument)


def _store(argument: str) -> str:
    with open(argument, "wb") as file:
        file.write(b"x")
    return ""


def _tell(argument: str) -> str:
    return " ".join(sorted(os.environ))


_DEEDS = {
    "loop": _loop,
    "wait": _wait,
    "eat": _eat,
    "write": _write,
    "fork": _fork,
    "fork_and_wait": _fork_and_wait,
    "fault": _fault,
    "abort": lambda argument: os.abort(),
    "refuse": _refuse,
    "fail": _fail,
    "recurse": _recurse,
    "store": _store,
    "tell": _tell,
    "say": lambda argument: argument,
    "surrogate": lambda argument: "bad\ud800end",
}
