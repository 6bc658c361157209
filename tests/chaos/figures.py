"""The figures of runs as Markdown, the slowest of each: `python -m tests.chaos.figures .sabueso/chaos/*.jsonl`."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """A row a process and fault: seconds until it served again, and from then until the last request was whole."""
    worst: dict[tuple[str, str], list[float]] = {}
    broken: dict[tuple[str, str], int] = {}
    for line in lines:
        key = line["service"], line["fault"]
        fault, recovery = worst.setdefault(key, [0.0, 0.0])
        worst[key] = [max(fault, line["fault_seconds"]), max(recovery, line["recovery_seconds"])]
        broken[key] = broken.get(key, 0) + bool(line["broken"])
    rows = ["| process | fault | fault, s | recovery, s | runs not as they should be |", "|---|---|---|---|---|"]
    for (service, how), (fault, recovery) in sorted(worst.items()):
        rows.append(f"| {service} | {how} | {fault:.1f} | {recovery:.1f} | {broken[service, how]} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(json.loads(line) for path in sys.argv[1:] for line in Path(path).read_text().splitlines()))
