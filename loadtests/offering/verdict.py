"""Judges a run: what kept its budgets, what did not, and whether the load was offered at all."""

from collections.abc import Mapping, Sequence

from loadtests.measuring import percentile
from loadtests.offering.arrivals import Arrival, schedule
from loadtests.offering.plan import PERCENTS, WHATS, Load, Row, What
from loadtests.offering.samples import Finding, Sample

_ENOUGH = 0.98


def judge(load: Load, samples: Sequence[Sample]) -> list[Finding]:
    """A finding a budget, in the order of the rows; the run's own come last."""
    planned = planned_counts(load, schedule(load))
    by_row: dict[str, list[Sample]] = {row.name: [] for row in load.rows}
    for sample in samples:
        if not sample.warm_up:
            by_row[sample.scenario].append(sample)
    found: list[Finding] = []
    for row in load.rows:
        seen = by_row[row.name]
        found += [*_times(row, seen), *_median(row, by_row), *_shares(row, seen, planned[row.name])]
    return [*found, _achieved(load, by_row, planned)]


def planned_counts(load: Load, arrivals: Sequence[Arrival]) -> dict[str, int]:
    """Arrivals that count, by the name of their row."""
    counts = dict.fromkeys((row.name for row in load.rows), 0)
    for one in arrivals:
        if not one.warm_up:
            counts[load.rows[one.row].name] += 1
    return counts


def table(load: Load, samples: Sequence[Sample], findings: Sequence[Finding]) -> str:
    """For people: a line a row and timed thing, then remarks (!), what holds of the run (✓) and what failed (✗)."""
    planned = planned_counts(load, schedule(load))
    width = max((len(row.name) for row in load.rows), default=8) + 1
    lines = [
        f"{'scenario':<{width}} {'what':<12} {'p50':>6} {'p95':>6} {'p99':>6} {'budget':>26}  answered refused failed"
    ]
    for row in load.rows:
        seen = [one for one in samples if one.scenario == row.name and not one.warm_up]
        lines += _lines(row, seen, planned[row.name], width)
    lines += [f"! left out: {one}" for one in load.left_out]
    lines += [f"! {row.name}: {text}" for row in load.rows if (text := _behind(row, samples, planned[row.name]))]
    failed = [one for one in findings if one.failed]
    lines += [f"✓ {one.text}" for one in findings if not one.failed and not one.scenario]
    lines += [f"✗ {one.scenario}: {one.text}" if one.scenario else f"✗ {one.text}" for one in failed]
    return "\n".join(lines if failed else [*lines, "✓ all is as it should be"])


def in_time(row: Row, samples: Sequence[Sample]) -> int:
    """Those of the row that ended within its window, or so soon after it as is allowed."""
    return sum(one.ended <= row.begins + row.seconds + row.grace_seconds for one in samples if one.status)


def _times(row: Row, seen: Sequence[Sample]) -> list[Finding]:
    found: list[Finding] = []
    for what, budgets in row.budgets().items():
        for percent, budget in budgets.items():
            measured = _percentile(seen, what, float(percent[1:]))
            failed = measured > budget
            text = f"{percent} of {what} is {measured:.0f} ms, {'over' if failed else 'within'} its {budget:.0f} ms"
            found.append(Finding(row.name, f"{percent} {what}", failed, text))
    return found


def _median(row: Row, by_row: Mapping[str, Sequence[Sample]]) -> list[Finding]:
    wanted = row.scenario.median
    if not wanted or not row.timed or wanted.of not in by_row or row.name != row.scenario.name:
        return []
    own, other = (_percentile(by_row[name], "answer", 50) for name in (row.name, wanted.of))
    failed = own > wanted.times * other
    limit = f"{wanted.times:g} × the {other:.0f} ms of {wanted.of}"
    text = f"its median is {own:.0f} ms, {'over' if failed else 'within'} {limit}"
    return [Finding(row.name, "median", failed, text)]


def _shares(row: Row, seen: Sequence[Sample], planned: int) -> list[Finding]:
    scenario = row.scenario
    problems = [one.problem for one in seen if one.problem]
    failed = len(problems) > scenario.max_error_share * planned
    text = f"{len(problems)} of {planned} failed"
    if problems:
        text += ": " + "; ".join(sorted(set(problems))[:3])
    found = [Finding(row.name, "errors", failed, text)]
    reasons = sorted({one.finish for one in seen if one.refused and one.finish})
    refused = sum(one.refused for one in seen)
    most = None if row.may_refuse else scenario.max_refused_share
    too_many = most is not None and refused > most * planned
    text = f"{refused} of {planned} were refused" + (f" ({', '.join(reasons)})" if reasons else "")
    if refused < scenario.min_refused_share * planned:
        text += f", fewer than the {scenario.min_refused_share:.0%} that its limits should"
        too_many = True
    return [*found, Finding(row.name, "refusals", too_many, text)]


def _achieved(load: Load, by_row: Mapping[str, Sequence[Sample]], planned: Mapping[str, int]) -> Finding:
    done = sum(in_time(row, by_row[row.name]) for row in load.rows)
    whole = sum(planned.values())
    share = done / whole if whole else 0.0
    failed = share < _ENOUGH
    text = f"{share:.1%} of the planned load was offered and ended in time"
    if failed:
        text += f", less than {_ENOUGH:.0%}: the figures are those of an overloaded stack, or machine"
    return Finding("", "planned rate", failed, text)


def _behind(row: Row, samples: Sequence[Sample], planned: int) -> str:
    done = in_time(row, [one for one in samples if one.scenario == row.name and not one.warm_up])
    return f"only {done} of {planned} ended in time" if done < _ENOUGH * planned else ""


def _lines(row: Row, seen: Sequence[Sample], planned: int, width: int) -> list[str]:
    budgets = row.budgets()
    counts = f"{sum(one.answered for one in seen):>4}/{planned:<4} {sum(one.refused for one in seen):>6}"
    counts += f" {sum(bool(one.problem) for one in seen):>6}"
    lines: list[str] = []
    timed: list[What] = [what for what in WHATS if what in budgets]
    for what in timed or WHATS[:1]:
        times = " ".join(f"{_percentile(seen, what, p):6.0f}" for p in (50, 95, 99))
        budget = ", ".join(f"{p} {budgets[what][p]:.0f}" for p in PERCENTS if p in budgets.get(what, {}))
        lines.append(f"{row.name:<{width}} {what:<12} {times} {budget:>26}  {counts}".rstrip())
        counts = ""
    return lines


def _percentile(samples: Sequence[Sample], what: str, percent: float) -> float:
    """Of true answers, in milliseconds; infinite when there was none."""
    times = [one.milliseconds(what) for one in samples if one.answered]
    return percentile(times, percent) if times else float("inf")
