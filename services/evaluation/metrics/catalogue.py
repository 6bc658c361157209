"""All metrics of one answer, by name."""

import asyncio
from collections.abc import Sequence

from services.evaluation.answered import Answered
from services.evaluation.golden.item import Item
from services.evaluation.judge.judge import Judge
from services.evaluation.metrics import (
    answer_relevance,
    completeness,
    context_precision,
    context_recall,
    faithfulness,
    ranking,
)
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.metrics.metric import Metric
from services.evaluation.score import Score

# Noise sensitivity is not among them: it takes two answers.
METRICS = (
    faithfulness.METRIC,
    answer_relevance.METRIC,
    context_precision.METRIC,
    context_precision.METRIC_RANKED,
    context_recall.METRIC,
    completeness.METRIC,
    *ranking.ranking_metrics(),
)
# What can be had of live traffic.
ONLINE = tuple(metric for metric in METRICS if not metric.needs_item)


def named(names: Sequence[str]) -> tuple[Metric, ...]:
    """In the order of `names`. Raises ValueError, which names those there are."""
    known = {metric.name: metric for metric in METRICS}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no metric is called {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)


async def score_all(
    metrics: Sequence[Metric], answered: Answered, item: Item | None, judge: Judge | None, embedder: Embedder | None
) -> list[Score]:
    """All of `metrics`, side by side as far as the judge takes it, in their order."""
    return list(await asyncio.gather(*(metric.score(answered, item, judge, embedder) for metric in metrics)))
