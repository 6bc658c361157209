"""Whether a run is worse than the committed baseline: for CI, which stops on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.evaluation.golden.item import TEST
from services.evaluation.runs.baseline import Baseline, reworded, scores_of
from services.evaluation.runs.compare import ALPHA, Compared, Verdict, compare
from services.evaluation.runs.deterministic import ARGUMENTS
from services.evaluation.score import Score, Status
from services.evaluation.tools.assignment import NOT_JUDGED

# What the gate asks about. Measures that say nearly the same as one of these would only make the test blunter, since it
# is corrected for how many metrics it looks at.
GATED = (
    *("refusal_accuracy", "reference_facts", "citation_precision", "faithfulness", "answer_relevance"),
    *("context_precision", "context_recall", "ndcg@10", "noise_sensitivity"),
    *("tool_selection_accuracy", "call_accuracy", "no_tool_accuracy"),
)
# Share of a metric's questions that may lose their value, or of all questions their answer.
LOST_SHARE = 0.02
_NAMED = 8
_LOST = (Status.JUDGE_FAILED, Status.OVER_BUDGET)


@dataclass(frozen=True)
class Fault:
    """Why the gate is shut: `what` names variant and metric, `why` is for a person."""

    what: str
    why: str


@dataclass(frozen=True)
class Gate:
    """`compared` by variant. Shut where there is a fault."""

    compared: Mapping[str, Sequence[Compared]] = field(default_factory=dict[str, "Sequence[Compared]"])
    faults: Sequence[Fault] = ()

    @property
    def is_open(self) -> bool:
        """Whether nothing is shown to be worse."""
        return not self.faults


@dataclass(frozen=True)
class Current:
    """The run that is judged: scores by variant, metric and item; questions that had an answer, by variant."""

    golden_set: str
    fingerprint: str
    judge: str
    scores: Mapping[str, Mapping[str, Mapping[str, Score]]]
    answered: Mapping[str, Sequence[str]]
    statements: str = NOT_JUDGED
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])


def check(
    baseline: Baseline,
    current: Current,
    families: Mapping[str, str],
    *,
    metrics: Sequence[str] = GATED,
    alpha: float = ALPHA,
    tolerance: float = 0.0,
) -> Gate:
    """Compares on the same questions, one-sided. A drop within `tolerance` passes although it is shown.

    Also shut: another set, another judge or wording of its prompts, calls whose statements were judged in another way,
    a variant or metric that is not there any more, values or answers that have gone missing: what fails to be measured
    must not pass for good. Questions are named, but for those of a test half.
    """
    if current.fingerprint != baseline.fingerprint:
        why = f"the baseline is of other items ({baseline.golden_set} version {baseline.version}); make it anew"
        return Gate(faults=[Fault("set", why)])
    if current.judge != baseline.judge:
        why = f"judged by {current.judge or 'nobody'}, the baseline by {baseline.judge or 'nobody'}"
        return Gate(faults=[Fault("judge", why)])
    if changed := reworded(baseline.prompts, current.prompts):
        why = f"its prompts are others than those of the baseline ({', '.join(changed)}); make it anew"
        return Gate(faults=[Fault("judge", why)])
    found: dict[str, list[Compared]] = {}
    faults: list[Fault] = []
    for variant, kept in baseline.scores.items():
        gated = {name: kept[name] for name in metrics if name in kept}
        if current.statements != baseline.statements and gated.pop(ARGUMENTS, None) is not None:
            faults.append(Fault(f"{variant}: {ARGUMENTS}", _otherwise_judged(current, baseline)))
        if variant not in current.scores:
            faults.append(Fault(variant, "was not run"))
            continue
        now = current.scores[variant]
        found[variant] = compare(scores_of(gated), now, families, alpha=alpha, only_worse=True)
        faults += _lost(variant, gated, now, baseline, current)
        faults += _worse(variant, found[variant], tolerance, baseline)
    return Gate(found, faults)


def _otherwise_judged(current: Current, baseline: Baseline) -> str:
    return (
        f"statements are {current.statements}, in the baseline {baseline.statements}: run with the same --database, or "
        "make the baseline anew"
    )


def _worse(variant: str, compared: Sequence[Compared], tolerance: float, baseline: Baseline) -> list[Fault]:
    faults: list[Fault] = []
    for one in compared:
        difference = one.paired.difference
        if one.verdict is Verdict.WORSE and abs(difference.mean) > tolerance:
            why = (
                f"{one.first:.3f} → {one.second:.3f}, {difference.mean:+.3f} [{difference.low:+.3f}, "
                f"{difference.high:+.3f}], p {one.p_adjusted:.4f}: {_named(one.changed, baseline)}"
            )
            faults.append(Fault(f"{variant}: {one.metric}", why))
    return faults


def _lost(
    variant: str,
    metrics: Mapping[str, Mapping[str, float]],
    now: Mapping[str, Mapping[str, Score]],
    baseline: Baseline,
    current: Current,
) -> list[Fault]:
    before = set(baseline.answered.get(variant, ()))
    gone = sorted(before - set(current.answered.get(variant, ())))
    faults: list[Fault] = []
    if len(gone) > LOST_SHARE * len(before):
        faults.append(
            Fault(f"{variant}: answers", f"{len(gone)} of {len(before)} questions failed: {_named(gone, baseline)}")
        )
    for metric, values in metrics.items():
        scores = now.get(metric, {})
        # A refusal has no claims, and other metrics judge it; what the judge or its budget lost is lost.
        lost = sorted(key for key in values if key not in scores or scores[key].status in _LOST)
        explained = [key for key in lost if key not in gone]
        if len(explained) > LOST_SHARE * len(values):
            why = f"{len(explained)} of {len(values)} values are missing: {_named(explained, baseline)}"
            faults.append(Fault(f"{variant}: {metric}", why))
    return faults


def _named(ids: Sequence[str], baseline: Baseline) -> str:
    if baseline.half == TEST:
        return f"{len(ids)} of the test half"
    return ", ".join(ids[:_NAMED]) + (" …" if len(ids) > _NAMED else "")
