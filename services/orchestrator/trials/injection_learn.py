"""Learns the detector's weights from the development halves.

`python -m services.orchestrator.trials.injection_learn DATA`, a folder of public sets (injection_sets.py).
Needs scikit-learn, which nothing needs at run time. Writes services/runtime/recognition/injections/weights.json.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from services.orchestrator.trials.injection_examples import FOLDS, Example, examples, fold_of, shares
from services.runtime.recognition.injections.judging import ALWAYS, Weights, seconds

WEIGHTS = Path("services/runtime/recognition/injections/weights.json")
# `order` (to drop rules, tell secrets, act), `reply` (to change the answer or its code), `task` (any other work), and
# all of them; with the regularisation of each.
KINDS = {"order": 1.0, "reply": 0.5, "task": 0.5, "attack": 0.5}
_REGULARISATION = 0.1
# The share of the hardest benign texts of the development half that may be blamed, procedures, handbooks, mails and
# passages that bid; and of those that are a sentence or two. What is measured is lower, for prose is blamed rarely.
_ALARMS, _ALONE_ALARMS = 0.016, 0.045
_HARD = ("tau2", "packages", "python", "agentdojo", "demo", "own passages")
# Of what users say, and of handbooks that they paste; they may ask for anything but to drop rules and tell secrets.
_USER_ALARMS, _PASTED_ALARMS = 0.003, 0.02
# What is planted is rare: benign sentences count so much more than attacks do in all.
_ATTACKS_TO_CALM = 0.3
_LEAST_WEIGHT = 0.03
_PARTS = 4
_Rows = Sequence[Mapping[str, float]]


def learn(known: Sequence[Example]) -> tuple[dict[str, Any], Mapping[str, float]]:
    """What weights.json holds. Besides, by set, the share that is blamed by weights that have not seen the set's text.

    The limits are of texts that the weights which judge them have not seen: on seen ones they would be too low.
    """
    unseen = [_of([one for one in known if one.fold != fold]) for fold in range(FOLDS)]
    judges = [_without_limits(one) for one in unseen]
    totals = [_totals(judges[one.fold], one) for one in known]
    hard = [one.kind == "calm" and one.source in _HARD for one in known]
    data = -_threshold([apart for (apart, _), is_hard in zip(totals, hard, strict=True) if is_hard], _ALARMS)
    calm = [one.kind == "calm" and one.source != "own" for one in known]
    lonely = [alone for (_, alone), is_calm in zip(totals, calm, strict=True) if is_calm and alone > -99]
    alone = -_threshold(lonely, _ALONE_ALARMS)
    blamed = [max(one[0] + data, one[1] + alone) >= 0 for one in totals]
    learnt = _of(known)
    learnt["bias"] = {"data": data, "alone": alone, "user": _user_limit(judges, known, hard)}
    return learnt, shares(known, blamed)


def _of(known: Sequence[Example]) -> dict[str, Any]:
    """Weights without limits. The second ones are learnt from sums by first ones that have not seen the text."""
    words = {kind: _words(known, kind) for kind in KINDS}
    # Other parts than those of `learn`, of which one is missing here.
    folds = [fold_of(f"again {one.group}") % _PARTS for one in known]
    others = [[one for one, at in zip(known, folds, strict=True) if at != part] for part in range(_PARTS)]
    halves = [_without_limits({"words": {kind: _words(some, kind) for kind in KINDS}}) for some in others]
    rows, labels, counts = list[dict[str, float]](), list[int](), list[float]()
    for one, part in zip(known, folds, strict=True):
        if one.kind == "user" or (one.attack and one.plain_question):
            continue
        for found, around in one.sentences[: 2 if one.attack else None]:
            rows.append(dict(seconds(tuple(KINDS), halves[part].sums(found), found, around)))
            labels.append(int(one.attack))
            counts.append(one.counts)
    attacks = sum(count for count, label in zip(counts, labels, strict=True) if label)
    share = _ATTACKS_TO_CALM * (sum(counts) - attacks) / attacks
    counts = [count * share if label else count for count, label in zip(counts, labels, strict=True)]
    standing, always = _fit(rows, labels, _REGULARISATION, counts, least=0.01)
    return {"words": words, "standing": standing | {ALWAYS: always}}


def _without_limits(learnt: Mapping[str, Any]) -> Weights:
    return Weights.of({"standing": {}, **learnt, "bias": dict.fromkeys(("data", "alone", "user"), 0.0)})


def _words(known: Iterable[Example], kind: str) -> dict[str, float]:
    others = ("calm", "user", "reply", "task") if kind == "order" else ("calm",)
    # Of an attack the first sentences give the order; what follows is code, or what is to be said.
    positive, negative = list[Sequence[str]](), list[Sequence[str]]()
    for one in known:
        said = [found for found, _ in one.sentences[: 2 if one.attack else None] if found]
        if not one.inside and (one.kind == kind or (kind == "attack" and one.attack)):
            positive += () if one.plain_question else said
        elif not one.inside and one.kind in others:
            negative += said
    rows = [dict.fromkeys(said, 1.0) for said in (*positive, *negative)]
    return _fit(rows, [1] * len(positive) + [0] * len(negative), KINDS[kind])[0]


def _fit(
    rows: _Rows,
    labels: Sequence[int],
    regularisation: float,
    counts: Sequence[float] | None = None,
    least: float = _LEAST_WEIGHT,
) -> tuple[dict[str, float], float]:
    """Weights by feature, and what is added always."""
    from sklearn.feature_extraction import DictVectorizer  # pyright: ignore
    from sklearn.linear_model import LogisticRegression  # pyright: ignore

    count = Counter(name for row in rows for name in row)
    vectors: Any = DictVectorizer()
    matrix: Any = vectors.fit_transform(
        [{name: value for name, value in row.items() if count[name] > 1} for row in rows]
    )
    matrix.indices, matrix.indptr = matrix.indices.astype("int32"), matrix.indptr.astype("int32")  # liblinear's own
    balance = None if counts else "balanced"
    model: Any = LogisticRegression(
        C=regularisation, solver="liblinear", intercept_scaling=10, max_iter=500, class_weight=balance
    )
    model.fit(matrix, labels, sample_weight=counts)
    named = zip(vectors.get_feature_names_out(), model.coef_[0], strict=True)
    learnt = {str(name): round(float(weight), 2) for name, weight in named if abs(weight) >= least}
    return learnt, round(float(model.intercept_[0]), 2)


def _totals(weights: Weights, one: Example) -> tuple[float, float]:
    """The worst of its sentences that stand among others, and of those that stand alone."""
    apart = alone = -99.0
    for found, around in one.sentences:
        total = weights.total(weights.sums(found), found, around)
        apart, alone = (apart, max(alone, total)) if "alone" in around else (max(apart, total), alone)
    return apart, alone


def _user_limit(judges: Sequence[Weights], known: Sequence[Example], hard: Sequence[bool]) -> float:
    def worst(one: Example) -> float:
        judge = judges[one.fold]
        return max((judge.user_total(judge.sums(found)) for found, _ in one.sentences), default=-99.0)

    pasted = [worst(one) for one, is_hard in zip(known, hard, strict=True) if is_hard]
    asked = [worst(one) for one in known if one.kind == "user"]
    return -max(_threshold(pasted, _PASTED_ALARMS), _threshold(asked, _USER_ALARMS))


def _threshold(sums: Sequence[float], share: float) -> float:
    """What a sum must exceed for no more than this share of them to do so."""
    return round(sorted(sums, reverse=True)[int(share * len(sums))] + 0.01, 2)


def main(folder: Path) -> None:
    """Learns and writes. Prints the limits, and what weights blame of the development half that have not seen it."""
    learnt, found = learn(list(examples(folder)))
    WEIGHTS.write_text(json.dumps(learnt, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps({"bias": learnt["bias"], "standing": len(learnt["standing"])}))
    print(json.dumps(found, indent=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
