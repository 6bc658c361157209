"""Does a quantity grow? A robust test of a process' memory and file descriptors over a soak."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtests.measuring import percentile
from loadtests.offering.samples import Finding, Watched

# What a process does in its first minutes is filling caches and pools, not leaking.
_WARM_PART = 0.25
_FEWEST_READINGS = 12
_CONFIDENCE = 0.95
# Growth over the judged part of the run that an allocator, or a pool of connections, may show.
_BYTES, _BYTES_SHARE = 16 * 2**20, 0.1
_FILE_DESCRIPTORS = 8


@dataclass(frozen=True)
class Growth:
    """Over the judged part: the likely one, and the least that is compatible with the readings (95 %)."""

    likely: float
    least: float


def growth(at: Sequence[float], values: Sequence[float]) -> Growth:
    """Theil-Sen: the median of the slopes between all pairs of readings, with Sen's interval (1968), × the time.

    One reading in four may be anything, such as a burst while a query runs, without moving it.
    """
    import scipy.stats  # slow to import, and only a soak needs it

    library: Any = scipy.stats
    slope, _, low, _ = library.theilslopes(values, at, alpha=_CONFIDENCE)
    seconds = at[-1] - at[0]
    return Growth(float(slope) * seconds, float(low) * seconds)


def leaks(watched: Sequence[Watched], seconds: float, *, here: bool = True) -> list[Finding]:
    """A finding a process and quantity; failed when even the least growth is more than allowed.

    `here`: whether the processes run on this machine; of others nothing but the leases can be told.
    """
    if here and not watched:
        return [Finding("", "leaks", True, "no process was watched: the stack under load does not run any more")]
    judged = [one for one in watched if one.at >= _WARM_PART * seconds]
    found: list[Finding] = []
    for process in sorted({one.process for one in watched}) if here else ():
        readings = [one for one in judged if one.process == process]
        rss = [(one.at, one.rss_bytes) for one in readings if one.rss_bytes is not None]
        files = [(one.at, one.file_descriptors) for one in readings if one.file_descriptors is not None]
        found.append(_judged(process, "memory", rss, 2**20, "MiB", _BYTES, _BYTES_SHARE))
        found.append(_judged(process, "file descriptors", files, 1, "descriptors", _FILE_DESCRIPTORS, 0))
    leases = [one for one in watched if one.leases is not None]
    if leases:
        left = leases[-1].leases or 0
        text = f"{left} leases are held after the last answer" if left else "no lease is held after the last answer"
        found.append(Finding("", "leases", left > 0, text))
    return found


def _judged(
    process: str, what: str, readings: Sequence[tuple[float, float]], size: int, unit: str, allowed: float, share: float
) -> Finding:
    if len(readings) < _FEWEST_READINGS:
        text = f"{process}: {len(readings)} readings of its {what} are too few to tell; {_FEWEST_READINGS} are needed"
        return Finding("", f"{process} {what}", True, text)
    at, values = zip(*readings, strict=True)
    limit = max(allowed, share * percentile(values, 50))
    found = growth(at, values)
    text = (
        f"{process}: {what} from {values[0] / size:.0f} to {values[-1] / size:.0f} {unit}, growth"
        f" {found.likely / size:+.1f} (at least {found.least / size:+.1f}), allowed {limit / size:.0f}"
    )
    return Finding("", f"{process} {what}", found.least > limit, text)
