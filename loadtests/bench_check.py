"""Compares ours with its peers anew, and the ratios with those of baseline.json: `python -m loadtests.bench_check`.

Takes five minutes at most. What is worse is measured a second time before it counts. Exit status: 0 when nothing is
worse, 1 when something is, when nothing could be compared, or when a figure of the baseline is missing, but for those
that need what `make bench-peers` installs (`--allow-missing`: none counts). With `--write` it renews the baseline.
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
_MISSING = frozenset({"not measured", "not comparable"})
# These need gigabytes of peers.
_WITH_PEERS = QUICK["models"]
_RUNS, _SECONDS_OF_A_BASELINE = 3, 600.0


def measured(wanted: Iterable[str], seconds: float) -> Sequence[baseline.Fields]:
    """What these benches find in that time."""
    bench = Bench(wanted, seconds)
    asyncio.run(bench.run())
    return bench.found


def check(measure: Measure = measured, path: Path = baseline.FILE, *, allow_missing: bool = False) -> int:
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
        print("\nWorse by more than a tenth than the baseline's runs. If that is meant: make bench-baseline")
        return 1
    missing = [row.key for row in rows if row.verdict in _MISSING and row.key in committed["ratios"]]
    missing = [key for key in missing if not key.startswith(_WITH_PEERS)]
    if missing and not allow_missing:
        print(f"\nNot measured: {', '.join(missing)}. The reasons stand above; --allow-missing lets it pass.")
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
    parser.add_argument("--allow-missing", action="store_true", help="pass though figures could not be measured")
    asked = parser.parse_args(arguments)
    return write() if asked.write else check(allow_missing=asked.allow_missing)


if __name__ == "__main__":
    raise SystemExit(main())
