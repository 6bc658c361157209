"""Measures of what was retrieved by where it is from, without a judge: Recall@k, Precision@k, MRR, nDCG@k."""

from collections.abc import Mapping, Sequence
from typing import Any

import ir_measures

from services.evaluation.answered import Answered
from services.evaluation.golden.item import Item
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.metrics.metric import Asking, Found, Metric, NotScored
from services.evaluation.score import Status

DEFAULT_K = 10
# Names of the library, by ours.
_MEASURES = {"recall": "R", "precision": "P", "mrr": "RR", "ndcg": "nDCG"}
# Its types name those of pandas, which is not there.
_library: Any = ir_measures


def ranking_metrics(k: int = DEFAULT_K) -> tuple[Metric, ...]:
    """`recall@k`, `precision@k`, `mrr@k` and `ndcg@k`."""
    return tuple(_metric(name, k) for name in _MEASURES)


def ranked(name: str, k: int, passages: Sequence[str], expected: Sequence[str]) -> float:
    """`name` (recall, precision, mrr, ndcg) at `k` of passages given by their sources, best first.

    A source that is found twice is found once, at its first place, so that long documents are worth no more than short
    ones; only precision looks at each passage, since each took room in the prompt. Fewer than `k` passages lower
    precision, as the library and the field have it.
    """
    if not passages:
        return 0.0
    if name == "precision":
        found = [str(place) for place in range(len(passages))]
        relevant = [place for place, source in zip(found, passages, strict=True) if source in expected]
    else:
        found, relevant = list(dict.fromkeys(passages)), list(expected)
    if not relevant:
        return 0.0
    qrels: Mapping[str, Mapping[str, int]] = {"q": dict.fromkeys(relevant, 1)}
    run = {"q": {each: float(-place) for place, each in enumerate(found)}}
    measure = _library.parse_measure(f"{_MEASURES[name]}@{k}")
    return float(next(iter(_library.iter_calc([measure], qrels, run))).value)


def _metric(name: str, k: int) -> Metric:
    async def measure(answered: Answered, item: Item | None, asking: Asking, embedder: Embedder | None) -> Found:
        if item is None or not item.sources:
            raise NotScored(Status.NO_REFERENCE, "no source is expected")
        sources = [passage.source for passage in answered.passages]
        reason = "" if sources else "nothing was retrieved"
        return Found(ranked(name, k, sources, item.sources), details={"sources": sources}, reason=reason)

    return Metric(f"{name}@{k}", measure, needs_item=True, needs_judge=False)
