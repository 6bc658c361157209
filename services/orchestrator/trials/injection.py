"""How well injections are told from other text: `python -m services.orchestrator.trials.injection DATA`.

Recall on attack strings and false alarms on benign passages by set and half, beside the patterns that there were before
and beside blaming nothing. A passage is about 1,200 characters. The weights are learnt from the development half alone.
`user` is the judgement of what a user wrote himself, who may ask for anything but to drop the rules.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from services.orchestrator.trials import injection_sets as sets
from services.orchestrator.trials.injection_patterns import PatternScorer
from services.runtime.recognition.injections.detector import SUSPICIOUS, Detector

_Row = tuple[str, str, str, str]


def measure(folder: Path) -> Mapping[str, Mapping[_Row, tuple[int, int]]]:
    """By detector: (place, kind, half, set) → how many are blamed, of how many."""
    detector, patterns = Detector(), PatternScorer()
    judges: dict[str, Callable[[sets.Labelled, bool], float]] = {
        "detector": lambda one, user: detector.score(one.text, "user" if user else "data"),
        "patterns": lambda one, user: patterns.score(one.text),
    }
    counts: dict[str, dict[_Row, list[int]]] = {name: defaultdict(lambda: [0, 0]) for name in judges}
    for user, one in _texts(folder):
        kind = "attack" if one.attack else "benign"
        for name, judge in judges.items():
            row = counts[name]["user" if user else "data", kind, one.half, one.source]
            row[0] += judge(one, user) >= SUSPICIOUS
            row[1] += 1
    return {name: {row: (hit, count) for row, (hit, count) in rows.items()} for name, rows in counts.items()}


def _texts(folder: Path) -> Iterator[tuple[bool, sets.Labelled]]:
    """(whether it is judged as a user's own words, text)."""
    for one in (*sets.attacks(folder), *sets.benign(folder)):
        if one.place == "data" or one.attack:
            yield False, one
        if one.source == "bastioncorpus":
            yield True, one
    yield from ((True, one) for one in sets.questions(folder))


def main(folder: Path) -> None:
    """Prints the table, and how fast it is."""
    found = measure(folder)
    print(f"{'place':5} {'kind':7} {'half':5} {'set':16} {'texts':>6} {'detector':>9} {'patterns':>9}")
    totals: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row, (hit, count) in sorted(found["detector"].items()):
        before = found["patterns"][row][0]
        print(f"{row[0]:5} {row[1]:7} {row[2]:5} {row[3]:16} {count:6} {hit / count:9.3f} {before / count:9.3f}")
        for at, value in enumerate((hit, before, count)):
            totals[row[:3]][at] += value
    for key, (hit, before, count) in sorted(totals.items()):
        print(f"{key[0]:5} {key[1]:7} {key[2]:5} {'all':16} {count:6} {hit / count:9.3f} {before / count:9.3f}")
    text = "\n".join(one.text for one in sets.benign(folder) if one.half == "test")
    started = time.process_time()
    Detector().score(text)
    megabytes = len(text.encode()) / 1e6
    print(f"{megabytes / (time.process_time() - started):.1f} MB/s on {megabytes:.1f} MB of benign text")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
