"""The sandbox's server: loads the libraries once, then forks a limited process for each call.

`python -m services.runtime.sandbox_server MODULE:FUNCTION`, with a Unix seqpacket socket as standard input. A request
is a JSON object with two sockets and an open file beside it. The file is what the function reads. Into the first socket
the child writes its answer, lines of JSON. On the second the server says the child's process id and, at its end, how it
ended; when the caller shuts it, the child is killed with all its kin. It has one thread and imports no grpc: whatever
else may run while it forks could break the child.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from services.runtime.sandbox_protocol import LARGEST_REQUEST_BYTES, OUT_OF_MEMORY, Function, Refused, Request

_OPEN_FILES = 64
# Of linux/prctl.h.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38


class Server:
    """Children by process id, each with the socket on which its caller waits."""

    def __init__(self, control: socket.socket, function: Function) -> None:
        self._control = control
        self._function = function
        self._callers: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serves until the caller of all callers is gone, and takes the children along."""
        woken, waking = socket.socketpair()
        woken.setblocking(False)
        waking.setblocking(False)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _note)
        self._selector.register(woken, selectors.EVENT_READ)
        self._selector.register(self._control, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if not self._accept():
                        self._end()
                        return
                elif key.fileobj is woken:
                    with contextlib.suppress(BlockingIOError):
                        woken.recv(4096)
                elif key.data in self._callers:
                    # The caller has gone: nobody needs the answer.
                    self._selector.unregister(key.fileobj)
                    _kill_group(key.data)
            self._reap()

    def _accept(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._control, LARGEST_REQUEST_BYTES, 3)
        if not message:
            return False
        answer, caller = (socket.socket(fileno=descriptor) for descriptor in descriptors[:2])
        content = descriptors[2]
        request = Request(**json.loads(message))
        server_id = os.getpid()
        try:
            process_id = os.fork()
        except OSError:
            process_id = -1
        if process_id == 0:
            _child(request, answer.fileno(), content, self._function, server_id)
        answer.close()
        os.close(content)
        if process_id < 0:
            caller.close()
            return True
        caller.setblocking(False)
        self._tell(caller, process_id)
        self._callers[process_id] = caller
        self._selector.register(caller, selectors.EVENT_READ, process_id)
        return True

    def _reap(self) -> None:
        while True:
            try:
                process_id, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process_id == 0:
                return
            # Not ours: the orphan of a child, which has ended since.
            caller = self._callers.pop(process_id, None)
            if caller is None:
                continue
            _kill_group(process_id)
            self._kill_orphans()
            with contextlib.suppress(KeyError):
                self._selector.unregister(caller)
            self._tell(caller, os.waitstatus_to_exitcode(status))
            caller.close()

    def _tell(self, caller: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            caller.send(f"{number}\n".encode())

    def _kill_orphans(self) -> None:
        """What left its group to outlive its parent has become a child of this process."""
        with contextlib.suppress(OSError):
            for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                if int(word) not in self._callers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(word), signal.SIGKILL)

    def _end(self) -> None:
        for process_id in self._callers:
            _kill_group(process_id)


def _note(number: int, frame: FrameType | None) -> None:
    """Only a signal that is handled wakes the selector."""


def _kill_group(process_id: int) -> None:
    # Before its first instructions have run, the child is not yet the head of a group.
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(process_id, signal.SIGKILL)


def _child(request: Request, answer: int, content: int, function: Function, server_id: int) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == server_id:
            os.dup2(answer, 1)
            # What a library complains of may hold the content's words.
            os.dup2(0, 2)
            os.dup2(content, 0)
            os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            _limit(request)
            status = _answer(request, function)
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:
        os._exit(status)


def _limit(request: Request) -> None:
    limits = {
        resource.RLIMIT_AS: (request.memory_bytes, request.memory_bytes),
        # At the first a signal that tells why, at the second one that cannot be ignored.
        resource.RLIMIT_CPU: (request.cpu_seconds, request.cpu_seconds + 1),
        resource.RLIMIT_NOFILE: (_OPEN_FILES, _OPEN_FILES),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    for limit, (soft, hard) in limits.items():
        highest = resource.getrlimit(limit)[1]
        if highest != resource.RLIM_INFINITY:
            soft, hard = min(soft, highest), min(hard, highest)
        resource.setrlimit(limit, (soft, hard))


def _answer(request: Request, function: Function) -> int:
    rows: list[Any] = []
    try:
        rows = list(function(_content(), **request.arguments))
        first: dict[str, Any] = {"rows": len(rows)}
    except Refused as error:
        first = {"refused": str(error)}
    except RecursionError:
        first = {"too_deep": True}
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:
        # Its words may be those of the content: only its kind and place may reach a log.
        first = {"failed": f"{type(error).__name__} {_place(error)}"}
    with open(1, "wb", buffering=256 * 1024, closefd=False) as out:
        for row in (first, *rows):
            # A lone surrogate of a broken file must not end the caller's decoding.
            out.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    return 0


def _content() -> bytes:
    with open(0, "rb", closefd=False) as file:
        file.seek(0)
        content = file.read()
    # Nothing that the function starts gets to read it again.
    os.dup2(2, 0)
    return content


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""


def _control_process(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _load(entry: str) -> Function:
    module_name, _, function = entry.partition(":")
    # With all that it imports: once, for all children.
    return getattr(importlib.import_module(module_name), function)


def main() -> None:
    """Serves on the socket that is standard input."""
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    # A terminal's interrupt is for the service, which ends this process by going.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)
    _control_process(_PR_SET_NO_NEW_PRIVS, 1)
    function = _load(sys.argv[1])
    # The pages stay shared with the children: their collector need not touch what is here already.
    gc.collect()
    gc.freeze()
    Server(control, function).run()


if __name__ == "__main__":
    main()
