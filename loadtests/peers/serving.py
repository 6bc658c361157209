"""A peer's side of worker. Standard library only: peers run in environments of their own."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Task = Callable[[Any], Any]


def serve(tasks: Mapping[str, Task]) -> None:
    """The peer's side, until its input ends. What libraries print goes to stderr."""
    answers, sys.stdout = sys.stdout, sys.stderr
    known = {"ready": lambda _: None, **tasks}
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_done(known[asked["task"]], asked["argument"])), file=answers, flush=True)


def _done(task: Task, argument: Any) -> dict[str, Any]:
    passed, worked = time.perf_counter(), time.process_time()
    try:
        value = task(argument)
    except Exception as error:  # of any library
        return {"problem": f"{type(error).__name__}: {str(error)[:300]}"}
    return {
        "value": value.tolist() if hasattr(value, "tolist") else value,
        "ms": (time.perf_counter() - passed) * 1000,
        "cpu_ms": (time.process_time() - worked) * 1000,
    }


def arguments() -> Sequence[str]:
    """Of the peer's command line."""
    return sys.argv[1:]
