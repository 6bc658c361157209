"""Learns the detector's weights from the development halves.

`python -m services.orchestrator.trials.injection_learn DATA`, a folder of public sets (injection_sets.py).
Needs scikit-learn, which nothing needs at run time. Writes services/runtime/recognition/injections/weights.json.
"""

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.orchestrator.trials import injection_sets as sets
from services.orchestrator.trials.injection_grammar import sentences_of
from services.runtime.recognition.injections.concepts import features, plain
from services.runtime.recognition.injections.sentences import sentences

WEIGHTS = Path("services/runtime/recognition/injections/weights.json")
# `order` (to drop rules, tell secrets, act), `reply` (to change the answer or its code), `task` (any other work).
# By kind: the regularisation, and the share of the hardest benign passages of the development half, procedures and
# handbooks together, that may be blamed. That makes 1 % of all benign passages there, with the target at 2 %: other
# texts are never quite alike. A third less misses 5 more in 100 of our own attacks, a third more finds 2.
KINDS = {"order": (1.0, 0.012), "reply": (0.5, 0.009), "task": (0.5, 0.009)}
_HARD = ("tau2", "packages", "python")
# Of what users say, and of handbooks that they paste; they may ask for anything but to drop rules and tell secrets.
_USER_ALARMS, _PASTED_ALARMS = 0.003, 0.02
_FOLDS = 5
_LEAST_WEIGHT = 0.03


@dataclass(frozen=True)
class Example:
    """A text as features of its sentences. `kind`: one of KINDS, `calm`, or `user` for what users rightly ask.

    `group`: its document, or its kind of attack.
    """

    kind: str
    source: str
    group: str
    sentences: Sequence[Sequence[str]]

    @property
    def fold(self) -> int:
        """Which of the folds its group is in."""
        return hashlib.sha256(self.group.encode()).digest()[1] % _FOLDS

    @property
    def plain_question(self) -> bool:
        """Whether it could be a heading of any list of questions: it is no use to learn such as attacks."""
        return bool(self.sentences) and "asks" in self.sentences[0] and "can>you" not in self.sentences[0]


def sentence_features(text: str) -> Iterator[list[str]]:
    """Of each sentence that has any."""
    for start, end in sentences(text):
        if found := sorted(set(features(plain(text[start:end])))):
            yield found


def examples(folder: Path) -> Iterator[Example]:
    """All of the development half, and our own."""
    for one in (*sets.attacks(folder), *sets.benign(folder), *sets.questions(folder)):
        if one.half == "dev":
            kind = "calm" if one.place == "data" else "user"
            if one.attack:
                kind = "order" if one.source == "bastioncorpus" else ""
            yield _example(one.text, kind, one.source, one.group)
    for name, kind in (("attacks", "order"), ("requests", ""), ("talk", "calm")):
        yield from (_example(text, kind, "own", text) for text in sets.own()[name])
    for name, kind in (("attacks", "order"), ("requests", ""), ("procedures", "calm")):
        yield from (_example(text, kind, "own", template) for template, text in sentences_of(name))


def _example(text: str, kind: str, source: str, group: str) -> Example:
    found = list(sentence_features(text))
    said = {name for one in found[:2] for name in one}
    return Example(kind or ("reply" if said & {"reply", "code"} else "task"), source, group, found)


def learn(known: Sequence[Example]) -> tuple[dict[str, Any], Mapping[str, float]]:
    """`weights` by kind and feature, and `bias` by place and kind: from a sum of 0 on a sentence is suspicious.

    The limits are of texts that the weights which judge them have not seen: on seen ones they would be too low.
    Besides, by set, the share that is blamed as data by such weights.
    """
    weights, bias = dict[str, Any](), dict[str, dict[str, float]]({"data": {}, "user": {}})
    blamed = [False] * len(known)
    for kind, (regularisation, alarms) in KINDS.items():
        sums = _unseen_sums(known, kind, regularisation)
        calm = [value for one, value in zip(known, sums, strict=True) if one.kind == "calm" and one.source in _HARD]
        bias["data"][kind] = -_threshold(calm, alarms)
        if kind == "order":
            asked = [value for one, value in zip(known, sums, strict=True) if one.kind == "user"]
            bias["user"][kind] = -max(_threshold(calm, _PASTED_ALARMS), _threshold(asked, _USER_ALARMS))
        weights[kind] = _fit(known, kind, regularisation)
        blamed = [before or value + bias["data"][kind] >= 0 for before, value in zip(blamed, sums, strict=True)]
    return {"bias": bias, "weights": weights}, _shares(known, blamed)


def _unseen_sums(known: Sequence[Example], kind: str, regularisation: float) -> list[float]:
    """What weights that are learnt from other groups make of each example."""
    folds = [_fit([one for one in known if one.fold != fold], kind, regularisation) for fold in range(_FOLDS)]
    return [_sum(folds[one.fold], one) for one in known]


def _shares(known: Sequence[Example], blamed: Sequence[bool]) -> Mapping[str, float]:
    """Of each set, and of all public attacks and benign passages."""
    found: dict[str, list[bool]] = defaultdict(list)
    for one, is_blamed in zip(known, blamed, strict=True):
        side = one.kind if one.kind in ("calm", "user") else "attack"
        found[f"{side} {one.source}"].append(is_blamed)
        if one.source != "own":
            found[f"{side} all"].append(is_blamed)
    return {name: round(sum(some) / len(some), 4) for name, some in sorted(found.items())}


def _fit(known: Sequence[Example], kind: str, regularisation: float) -> dict[str, float]:
    from sklearn.feature_extraction import DictVectorizer  # pyright: ignore
    from sklearn.linear_model import LogisticRegression  # pyright: ignore

    others = ("calm", "user", "reply", "task") if kind == "order" else ("calm",)
    # Of an attack the first sentences give the order; what follows is code, or what is to be said.
    positive = [said for one in known if one.kind == kind and not one.plain_question for said in one.sentences[:2]]
    negative = [
        said for one in known if one.kind in others for said in one.sentences[: 2 if one.kind in KINDS else None]
    ]
    count = Counter(name for said in (*positive, *negative) for name in said)
    vectors: Any = DictVectorizer()
    rows: Any = vectors.fit_transform(
        [{name: 1.0 for name in said if count[name] > 1} for said in (*positive, *negative)]
    )
    model: Any = LogisticRegression(C=regularisation, max_iter=3000, class_weight="balanced")
    model.fit(rows, [1] * len(positive) + [0] * len(negative))
    named = zip(vectors.get_feature_names_out(), model.coef_[0], strict=True)
    return {str(name): round(float(weight), 2) for name, weight in named if abs(weight) >= _LEAST_WEIGHT}


def _threshold(sums: Sequence[float], share: float) -> float:
    """What a sum must exceed for no more than this share of them to do so."""
    return round(sorted(sums, reverse=True)[int(share * len(sums))] + 0.01, 2)


def _sum(weights: Mapping[str, float], example: Example) -> float:
    return max((sum(weights.get(name, 0) for name in said) for said in example.sentences), default=-99.0)


def main(folder: Path) -> None:
    """Learns and writes. Prints the limits, and what weights blame of the development half that have not seen it."""
    learnt, shares = learn(list(examples(folder)))
    WEIGHTS.write_text(json.dumps(learnt, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps({"bias": learnt["bias"], "weights": {kind: len(one) for kind, one in learnt["weights"].items()}}))
    print(json.dumps(shares, indent=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
