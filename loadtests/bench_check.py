"""Compares ours with its peers anew, and the ratios with those of baseline.json: `python -m loadtests.bench_check`.

Takes five minutes at most. What is worse is measured a second time before it counts. Exit status: 0 when nothing is
worse, 1 when something is, or nothing could be compared. With `--write` it renews the baseline instead.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from loadtests import baseline, machine
from loadtests.bench import QUICK, QUICK_SECONDS, Bench

Measure = Callable[[Iterable[str], float], Sequence[baseline.Fields]]

_SECONDS_ONCE_MORE = 80.0
_RUNS, _SECONDS_OF_A_BASELINE = 3, 600.0


def measured(wanted: Iterable[str], seconds: float) -> list[baseline.Fields]:
    """What these benches find in that time."""
    bench = Bench(wanted, seconds)
    asyncio.run(bench.run())
    return bench.found


def check(measure: Measure = measured, path: Path = baseline.FILE) -> int:
    """Measures, compares, says."""
    committed = baseline.read(path)
    now = baseline.ratios(measure(QUICK, QUICK_SECONDS))
    rows = baseline.compare(committed["ratios"], now)
    if suspects := [row.key for row in rows if row.verdict == "worse"]:
        print("once more: " + ", ".join(suspects), file=sys.stderr)
        again = baseline.ratios(measure(_benches(suspects), _SECONDS_ONCE_MORE))
        rows = baseline.compare(committed["ratios"], now | again)
    print(baseline.table(rows))
    if committed["machine"]["cpu"] != machine.facts()["cpu"]:
        print(f"\nThe baseline was made on {committed['machine']['cpu']}.")
    print(f"\nLoad {machine.moment()['load']}, that of the baseline {committed['load']}, on {os.cpu_count()} cores.")
    verdicts = {row.verdict for row in rows}
    if "worse" in verdicts:
        print("\nWorse by more than a tenth beyond the intervals. If that is meant: make bench-baseline")
        return 1
    return 0 if {"same", "better"} & verdicts else 1


def write(measure: Measure = measured, path: Path = baseline.FILE) -> int:
    """Renews the baseline, from several runs."""
    runs = [measure(QUICK, _SECONDS_OF_A_BASELINE) for _ in range(_RUNS)]
    if not any(baseline.ratios(found) for found in runs):
        return 1
    baseline.write(runs, {"machine": machine.facts(), **machine.moment()}, path)
    print(f"{path} is renewed", file=sys.stderr)
    return 0


def _benches(keys: Sequence[str]) -> set[str]:
    """Which benches to run for these figures."""
    return {name for name, prefixes in QUICK.items() if any(key.startswith(prefixes) for key in keys)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.bench_check", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the baseline")
    return write() if parser.parse_args(arguments).write else check()


if __name__ == "__main__":
    raise SystemExit(main())
