"""What retrieval has to reach, and what a run has to fulfil to count at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.evaluation.retrieval import identifiers
from services.evaluation.retrieval.measures import FIRST, NDCG, difference
from services.evaluation.retrieval.stages import BM25, HYBRID, LEGS, RERANKED
from services.evaluation.retrieval.trial import Trial
from services.evaluation.statistics import Estimate

LEAST_COVERAGE = 0.95
_GAIN = 1.04
_ACROSS = "xquad-es-to-en"
# ADI has 82 passages, too few to say anything; the identifiers have a target of their own.
_NOT_COMPARED = ("adi", identifiers.NAME)


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured. `passed` is None where the collections for it are not there."""

    target: str
    passed: bool | None
    measured: str


def faults(trials: Sequence[Trial]) -> list[str]:
    """Why figures must not be believed: questions without an answer, or BM25 below the collection's floor."""
    found: list[str] = []
    for trial in trials:
        name = trial.collection.name
        for stage, measured in trial.measured.items():
            if measured.coverage < LEAST_COVERAGE:
                why = trial.failures.get(stage, "no answer")
                found.append(f"{name}, {stage}: only {measured.coverage:.0%} of the questions were answered ({why})")
        words = trial.measured.get(BM25.name)
        if words is not None and words.mean(NDCG) < trial.collection.floor:
            found.append(
                f"{name}: nDCG@10 of BM25 is {words.mean(NDCG):.3f}, below the floor of {trial.collection.floor:.2f}; "
                "were judgements joined on the wrong ids?"
            )
    return found


def best_leg(trial: Trial) -> str:
    """The single leg with the higher nDCG@10."""
    return max((leg.name for leg in LEGS), key=lambda name: trial.measured[name].mean(NDCG))


def gain(trial: Trial, stage: str) -> Estimate:
    """nDCG@10 of a stage above that of the best single leg, question by question."""
    return difference(trial.measured[stage], trial.measured[best_leg(trial)], NDCG)


def verdicts(trials: Sequence[Trial]) -> list[Verdict]:
    """All targets, in words with what was measured."""
    by_name = {trial.collection.name: trial for trial in trials}
    public = [trial for trial in trials if trial.collection.name not in _NOT_COMPARED]
    return [
        _hybrid(public),
        _mean_gain(public),
        _never_below(public),
        _spanish(by_name),
        _across(by_name),
        _identifiers(by_name.get(identifiers.NAME)),
        _unknown(by_name.get(identifiers.NAME)),
    ]


def _hybrid(trials: Sequence[Trial]) -> Verdict:
    below = [
        f"{trial.collection.name} {gain(trial, HYBRID.name).mean:+.3f}"
        for trial in trials
        if gain(trial, HYBRID.name).mean < 0
    ]
    target = "hybrid at least as good as the better of BM25 and dense, on every collection"
    return _unless(below, trials, target)


def _unless(below: Sequence[str], trials: Sequence[Trial], target: str) -> Verdict:
    if not trials:
        return Verdict(target, None, "")
    return Verdict(target, not below, f"below: {', '.join(below)}" if below else f"on all {len(trials)}")


def _mean_gain(trials: Sequence[Trial]) -> Verdict:
    target = "hybrid + rerank at least 4 % above the best single leg, on the mean"
    if not trials:
        return Verdict(target, None, "")
    reranked = sum(trial.measured[RERANKED.name].mean(NDCG) for trial in trials) / len(trials)
    leg = sum(trial.measured[best_leg(trial)].mean(NDCG) for trial in trials) / len(trials)
    return Verdict(target, reranked >= _GAIN * leg, f"{reranked:.3f} to {leg:.3f}, {reranked / leg - 1:+.1%}")


def _never_below(trials: Sequence[Trial]) -> Verdict:
    below = [
        f"{trial.collection.name} {one.mean:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
        for trial in trials
        if (one := gain(trial, RERANKED.name)).high < 0
    ]
    target = "hybrid + rerank on no collection below the best single leg beyond the 95 % interval"
    return _unless(below, trials, target)


def _spanish(trials: Mapping[str, Trial]) -> Verdict:
    target = "Spanish within 3 % of English on XQuAD"
    if not {"xquad-es", "xquad-en"} <= trials.keys():
        return Verdict(target, None, "")
    spanish, english = (trials[name].measured[RERANKED.name].mean(NDCG) for name in ("xquad-es", "xquad-en"))
    return Verdict(target, spanish >= 0.97 * english, f"{spanish:.3f} to {english:.3f}")


def _across(trials: Mapping[str, Trial]) -> Verdict:
    target = "Spanish questions to English passages: nDCG@10 at least 0.93"
    if _ACROSS not in trials:
        return Verdict(target, None, "")
    reached = trials[_ACROSS].measured[RERANKED.name].mean(NDCG)
    return Verdict(target, reached >= 0.93, f"{reached:.3f}")


def _identifiers(trial: Trial | None) -> Verdict:
    target = "identifiers and clause numbers at rank 1 in at least 99 %"
    if trial is None:
        return Verdict(target, None, "")
    reached = trial.measured[RERANKED.name].mean(FIRST)
    return Verdict(target, reached >= 0.99, f"{reached:.1%}")


def _unknown(trial: Trial | None) -> Verdict:
    target = "an identifier that nobody has scores, by words, below every known one of its kind"
    if trial is None or trial.false_share is None:
        return Verdict(target, None, "")
    return Verdict(target, trial.false_share == 0, f"{trial.false_share:.1%} do not")
